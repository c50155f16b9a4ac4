"""What recomputed runs are held to beside right values: the plain run's `None` and zeros, its generators
after an error, its error, its peak; and how differences are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance.judge.arrays import summaries
from conformance.judge.checks import CHECKS, applicable
from conformance.model.case import Case
from conformance.model.facts import Difference, Sampling, told_apart
from conformance.model.observation import ErrorSeen, Expected, Run
from conformance.model.verdict import Status, Verdict

from .evidence import (
    _DROPOUT,
    _GRADIENTS,
    _TOTAL,
    AS_PLAIN,
    CONTROL,
    EXPECTED,
    GRADIENTS,
    LARGE,
    MEMORY,
    ORDER,
    PLAIN,
    RANDOM,
    SEEN,
    UNKNOWN,
    array,
    case,
    evidence,
)

MIB = 2**20
ZERO = array([0, 0])
PASS, FAIL, WARN, REPORT, UNSUPPORTED, BROKEN = (
    *(Status.PASS, Status.FAIL, Status.WARN, Status.REPORT, Status.UNSUPPORTED, Status.BROKEN),
)


def verdict(check: str, of: Case, plain: Run, recomputed: Run, **more: Any) -> Verdict:
    """The one verdict of a check."""
    found = CHECKS[check].verdicts(evidence(of, plain=plain, recomputed=recomputed, **more))
    (one,) = found
    return one


# -- None and zeros --------------------------------------------------------------------------------


def _with(run: Run, x: Any) -> Run:
    return replace(run, gradients={**GRADIENTS, "x": x})


def _expecting(x: Any) -> Expected:
    return replace(EXPECTED, gradients={**GRADIENTS, "x": x})


@pytest.mark.parametrize("reference", [ZERO, None], ids=["zeros", "nothing-depends"])
@pytest.mark.parametrize(
    ("plain", "recomputed", "status", "says"),
    [
        (ZERO, ZERO, PASS, "2 gradients"),
        (None, None, PASS, "2 gradients"),
        (ZERO, None, FAIL, "x is None, but should be an array of shape (1, 2)"),
        (None, ZERO, FAIL, "x is zeros, not None"),
    ],
    ids=["zeros", "none", "none-for-zeros", "zeros-for-none"],
)
def test_none_and_zeros_are_held_to_the_plain_run(
    reference: Any, plain: Any, recomputed: Any, status: Status, says: str
) -> None:
    expected = _expecting(reference)
    runs = _with(CONTROL, plain), _with(SEEN, recomputed)
    found = verdict("gradient", PLAIN, *runs, expected=expected)
    assert (found.status, says in found.message) == (status, True), found
    if status is FAIL:
        (fact,) = found.facts
        assert isinstance(fact, Difference)
        assert fact.against == "plain run"


def test_none_for_zeros_in_a_second_order_gradient() -> None:
    both = {"again": {**GRADIENTS, "x": ZERO}}
    plain, recomputed = replace(CONTROL, **both), replace(SEEN, again={**GRADIENTS, "x": None})
    expected = replace(EXPECTED, again=both["again"])
    found = verdict("gradient", ORDER, plain, recomputed, expected=expected)
    assert found.status is FAIL
    assert "second-order gradient with respect to x is None" in found.message


def test_none_for_zeros_where_no_draw_was_seen() -> None:
    runs = _with(CONTROL, ZERO), _with(SEEN, None)
    found = verdict("gradient", RANDOM, *runs, expected=UNKNOWN)
    assert found.status is FAIL


@pytest.mark.parametrize(("x", "status"), [(ZERO, PASS), (GRADIENTS["x"], FAIL)])
def test_none_where_plain_is_refused_is_held_to_the_reference(x: Any, status: Status) -> None:
    plain = Run(error=_error("ValueError"))
    found = verdict("gradient", AS_PLAIN, plain, _with(SEEN, None), expected=_expecting(x))
    assert found.status is status


def test_a_gradient_may_be_zeros_where_plain_is_refused() -> None:
    """Nothing depends on the tensor, and the plain program did not come to what it would have given."""
    plain, seen = Run(error=_error("ValueError")), _with(SEEN, ZERO)
    found = verdict("gradient", AS_PLAIN, plain, seen, expected=_expecting(None))
    assert found.status is PASS


# -- generators after an error ---------------------------------------------------------------------


def _error(name: str, *bases: str, message: str = "no", phase: Any = "forward") -> ErrorSeen:
    return ErrorSeen(name, (name, *bases, "Exception"), message, phase)


_PROMISED = (_GRADIENTS, f"{_GRADIENTS}    error: {{type: ValueError}}\n")
DRAWING = case(_DROPOUT, _PROMISED)
FREE = case(_DROPOUT, _PROMISED, ("takes: x", "takes: x\n        preserve_rng: false"))
NOT_DRAWING = case(_PROMISED)
UNSEEDED = case(
    *_TOTAL,
    ("wrt: [x, w]}", "wrt: [x, w], totals: {w: 2.0}}\n    error: {type: ValueError}"),
    ("    inputs:", "    seeded: false\n    inputs:"),
)
HERE, ELSEWHERE = {"implicit": array(0.25)}, {"implicit": array(0.75)}


@pytest.mark.parametrize(
    ("of", "plain", "recomputed", "status", "says"),
    [
        (DRAWING, HERE, HERE, PASS, "generators have the same state as after the plain run"),
        (
            DRAWING,
            HERE,
            ELSEWHERE,
            WARN,
            "after the error the generator has another state than after the plain",
        ),
        (FREE, HERE, ELSEWHERE, REPORT, "after the error the generator has another state"),
        (DRAWING, HERE | {"g": array(1)}, HERE, PASS, "generators have the same state"),
        (DRAWING, {"g": array(1)}, {"g": array(2)}, WARN, "the generator (g) has another state"),
        (DRAWING, HERE, {}, UNSUPPORTED, "does not observe the state of generators"),
        (DRAWING, {}, {}, UNSUPPORTED, "does not observe the state of generators"),
    ],
)
def test_where_generators_stand_after_an_error(
    of: Case, plain: Any, recomputed: Any, status: Status, says: str
) -> None:
    raised = Run(error=_error("ValueError"), generators=recomputed)
    found = verdict("randomness", of, Run(generators=plain), raised)
    assert (found.status, says in found.message) == (status, True), found
    if status is WARN:
        assert found.facts == (Sampling("unknown", generators=tuple(recomputed)),)


def test_the_generators_of_a_promised_error_are_judged_where_it_draws_under_a_seed() -> None:
    assert applicable(DRAWING) == ("error", "randomness")
    assert applicable(NOT_DRAWING) == applicable(UNSEEDED) == ("error",)


# -- the plain run's error -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plain", "recomputed", "status", "says"),
    [
        (_error("RuntimeError"), _error("RuntimeError"), PASS, "and the plain program raised"),
        (_error("RuntimeError"), _error("OddError", "RuntimeError"), PASS, "raised OddError"),
        (_error("OddError"), _error("OSError", message="OddError: no"), PASS, "raised OSError"),
        (_error("OddError"), _error("OSError"), FAIL, "plain program raised OddError in forward"),
        (_error("NameError"), _error("NameError"), BROKEN, "the plain program raised NameError"),
        (_error("UnboundLocalError", "NameError"), None, BROKEN, "raised UnboundLocalError"),
        (_error("ModuleNotFoundError", "ImportError"), _error("OSError"), BROKEN, "raised Module"),
        (_error("RuntimeError"), None, PASS, "ran without an error, but the plain program raised"),
    ],
)
def test_recompute_may_raise_the_plain_programs_error(
    plain: ErrorSeen, recomputed: ErrorSeen | None, status: Status, says: str
) -> None:
    seen = SEEN if recomputed is None else Run(error=recomputed)
    found = verdict("error", AS_PLAIN, Run(error=plain), seen)
    assert (found.status, says in found.message) == (status, True), found


# -- a peak that recompute does not lower ----------------------------------------------------------


@pytest.mark.parametrize(
    ("plain", "recomputed", "unit", "status", "says"),
    [
        (30, 30, MIB, PASS, "recompute does not lower the peak here"),
        (20, 33, MIB, PASS, "20.00 activations plain, 33.00 recomputed"),
        (20, 34, MIB, WARN, "34.00 activations at the peak, but at most 33.50 should be"),
        (40, 43, MIB, PASS, "43.00 recomputed"),
        (40, 44, MIB, WARN, "but at most 43.50 should be"),
        (30, 40, 2**17, REPORT, "the difference is too small to judge"),
    ],
)
def test_a_peak_that_should_not_fall(
    plain: int, recomputed: int, unit: int, status: Status, says: str
) -> None:
    memory = replace(MEMORY, peaks=(30 * unit, 30 * unit), unit=unit)
    runs = replace(CONTROL, peak=plain * unit), replace(SEEN, peak=recomputed * unit)
    found = verdict("peak memory", LARGE, *runs, expected=replace(EXPECTED, memory=memory))
    assert (found.status, says in found.message) == (status, True), found


# -- how differences are told ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_neighbours_look_different(dtype: str) -> None:
    kind = np.dtype(dtype).type
    for start in (1 / 3, 1.0, 1e-5, 12345.678, -7.5):
        first = kind(start)
        second = np.nextafter(first, kind(np.inf))
        texts = told_apart(float(first), float(second))
        assert texts[0] != texts[1]
        sides = summaries(np.array([first]), np.array([second]))
        assert sides[0] != sides[1]


def test_no_more_digits_than_needed() -> None:
    assert told_apart(7.0, 6.0) == ("7", "6")
    assert told_apart(1 / 3, 0.5) == ("0.3333333", "0.5")
    assert told_apart(float("nan"), 1.0) == ("nan", "1")
    same = np.array([1 / 3, 2.0, 3.0, 4.0, 5.0])
    assert summaries(same, same + np.array([0, 0, 0, 0, 1])) == ("(5,) [0.333333, 2, 3, 4, …]",) * 2
    assert summaries(None, same)[0] == "None"


NEXT = np.nextafter(array([3, 3]), np.float32(4))


def test_a_difference_by_rounding_names_the_declaration_that_allows_it() -> None:
    found = verdict("gradient", PLAIN, CONTROL, _with(SEEN, NEXT))
    assert found.status is FAIL
    assert "3.0000002, but should be 3 (plain run); within the tolerance" in found.message
    assert "`exact_gradients: false`" in found.message
    more = verdict("gradient", PLAIN, CONTROL, _with(SEEN, array([3, 4])))
    assert "exact_gradients" not in more.message
    (fact,) = found.facts
    assert isinstance(fact, Difference)
    assert "exact_gradients" not in fact.words(numbers=False)


def test_a_value_that_is_off_by_rounding_names_exact() -> None:
    near = replace(SEEN, losses=(float(np.nextafter(9.0, 10)),))
    found = verdict("value", PLAIN, CONTROL, near)
    assert "9.000000000000002, but should be 9" in found.message
    assert "`exact: false`" in found.message
