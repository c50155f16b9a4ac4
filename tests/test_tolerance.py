"""How far apart two numbers may lie."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.judge.arrays import against_others, bounds, differs
from conformance.judge.limits import GROWTH
from conformance.language.load import load_text
from conformance.model.case import Tolerance

TIGHT = Tolerance(rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("expected", "greatest"),
    [
        ([0.0], [1e-5]),
        ([1.0], [1.1e-4]),
        ([-1.0, 0.0], [1.1e-4, 1e-5]),
        ([100.0, 0.0], [1.1e-2, 1e-3]),
        ([np.inf, 0.0], [np.inf, 1e-5]),
    ],
)
def test_bounds(expected, greatest):
    assert bounds(np.array([expected]), TIGHT) == pytest.approx(np.array([greatest]))


@pytest.mark.parametrize(
    ("observed", "expected", "agree"),
    [
        ([100.0, 0.0009], [100.0, 0.0], True),
        ([100.0, 0.0011], [100.0, 0.0], False),
        ([1.0 + 1e-3, 1.0], [1.0, 1.0], False),
        ([100.1, 100.0], [100.0, 100.0], False),
        ([np.inf, 1.0], [np.inf, 1.0], True),
        ([1.0, 1.0], [np.inf, 1.0], False),
        ([np.inf, 1.0], [1.0, 1.0], False),
        ([np.nan, 1.0], [1.0, 1.0], False),
    ],
)
def test_differs(observed, expected, agree):
    assert differs(np.array(observed), np.array(expected), TIGHT) is not agree


CASE = """
family: made
cases:
  up:
    title: A case with tanh
    source: made up
    why: To be compared.
    inputs: {x: {shape: [2], full: 1.0}}
    program:
      - recompute: block
        takes: x
        gives: y
        body: [y = tanh(x)]
    outputs: y
    gradients: {of: sum(y)}
"""


def test_inaccurate_kernels_widen_only_the_cases_that_use_them():
    (case,) = load_text(CASE, "made.yaml")
    assert against_others(case, {}) == case.tolerance
    assert against_others(case, {"exp": 1e-4}) == case.tolerance
    wide = against_others(case, {"tanh": 1e-4, "exp": 1e-2})
    assert wide == Tolerance(case.tolerance.rtol, GROWTH * 1e-4)
    assert against_others(case, {"sum": 1e-4}) == wide  # of the loss
