"""How far apart two numbers may be and still count as equal."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from conformance.judge.limits import GROWTH
from conformance.model.case import Case, Tolerance


def bounds(rows: NDArray[np.float64], tolerance: Tolerance) -> NDArray[np.float64]:
    """The greatest tolerated distance from some arrays, element by element; each row is one array.

    `atol` is meant for arrays of magnitude 1 and is scaled by the largest element, because a small
    element of an array with large ones may be the result of cancellation.
    """
    sizes = np.abs(rows)
    largest = np.max(sizes, axis=1, initial=1.0, where=np.isfinite(sizes))
    return np.asarray((tolerance.atol * largest)[:, np.newaxis] + tolerance.rtol * sizes)


def against_others(case: Case, accuracy: Mapping[str, float]) -> Tolerance:
    """The tolerance of a case against the reference and against other frameworks.

    `accuracy` names operations whose kernels are less accurate than their dtype, with the greatest
    absolute error; a case that uses one has that error, times `GROWTH`, as its absolute tolerance.
    """
    used = {statement.op for _, statement in case.statements()}
    error = max((greatest for op, greatest in accuracy.items() if op in used), default=0.0)
    atol = max(case.tolerance.atol, GROWTH * error)
    return Tolerance(case.tolerance.rtol, atol)
