"""Whether the numbers of a program can be compared: near a kink, or where rounding errors grow, correct
implementations differ from the reference and from each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from conformance.judge.arrays import against_others, differs, inaccuracy, quantities
from conformance.language.features import required_by
from conformance.model.case import Case, Tolerance
from conformance.model.observation import Array, Expected, RandomSample
from conformance.oracle import tape
from conformance.oracle.expected import computed

#: The relative rounding error of a dtype, by the greatest tolerance of its cases.
_ROUNDING = {1e-9: 2e-16, 1e-4: 1e-7, 1e-2: 5e-4, 1.0: 4e-3}
#: What part of the tolerance rounding errors may use up.
_PART = 0.5
#: The greatest element of a gradient of which more is left than rounding errors in double precision.
_LEAST = 1e-10
#: The greatest result or gradient that is compared: kernels lose more of larger ones than rounding.
_LARGEST = 1e6
#: How much larger than rounding errors those of a kernel may be that computes a result in several steps.
KERNELS = 10.0
#: How often results are rounded at random. Where dtypes have few bits, one result in some programs lies
#: so near a kink that rounding takes it across, and one attempt may miss it.
_ATTEMPTS, _FEW_BITS = 6, 1e-4


def is_stable(
    case: Case,
    samples: Sequence[RandomSample] | None = None,
    *,
    errors: float = 1.0,
    accuracy: Mapping[str, float] = {},
) -> bool:
    """Whether rounding errors change nothing beyond a part of the tolerance, and nothing is infinite but
    elements of gradients; with the random numbers that a run has drawn, where these are given, with
    `errors` so many times as large as rounding alone, and as large as those of the operations that
    `accuracy` names. What is drawn shows neither whether a dropout has kept a zero nor the slope of an
    `rrelu` there, which must not matter, either."""
    if case.error is not None and not case.as_plain:
        return True
    size = next(s for tolerance, s in _ROUNDING.items() if case.tolerance.rtol <= tolerance)
    if not {"bfloat16", "autocast-bfloat16"} & required_by(case):
        size = min(size, _ROUNDING[1e-2])
    size = max(errors * size, inaccuracy(case, accuracy))
    whole = against_others(case, accuracy)
    tolerance = Tolerance(whole.rtol * _PART, whole.atol * _PART)
    try:
        with np.errstate(all="ignore"):
            exact = computed(case, samples=samples)
            if not all(bool(np.all(np.isfinite(array))) for _, array in quantities(exact)):
                return False
            if samples and not _alike(exact, _keeping_zeros(case, samples), tolerance):
                return False
            attempts = range(_ATTEMPTS if size > _FEW_BITS else 1)
            rounded = (computed(case, _rounding(case, size, n), samples) for n in attempts)
            return all(_alike(exact, one, tolerance) for one in rounded)
    except Exception:  # a fault of the reference is a finding, and shows when it judges
        return True


def _keeping_zeros(case: Case, samples: Sequence[RandomSample]) -> Expected:
    with tape.keeping_zeros():
        return computed(case, samples=samples)


def _rounding(case: Case, size: float, attempt: int) -> Callable[[Array], Array]:
    """Changes results by a random part of them, as much as `size` at most and another one in each
    `attempt`; what is 0 is below it, where relu has the slope that it has at 0."""
    rng = np.random.default_rng((case.seed, attempt))

    def rounded(data: Array) -> Array:
        sizes = np.abs(data)
        largest = np.max(
            sizes, initial=0.0, where=sizes <= _LARGEST
        )  # others stand for infinite ones
        errors = size * (sizes + 1e-3 * largest) * rng.uniform(-1, 1, data.shape)
        return np.asarray(data + np.where(data == 0, -np.abs(errors), errors))

    return rounded


def _alike(exact: Expected, rounded: Expected, tolerance: Tolerance) -> bool:
    """Whether results agree. An infinite or undefined element is at a pole, where rounding errors have
    no limit: there anything agrees."""
    for one, other in zip(_numbers(exact), _numbers(rounded), strict=True):
        finite = np.isfinite(one)
        if differs(other[finite], one[finite], tolerance):
            return False
    return True


def extent(case: Case, samples: Sequence[RandomSample] | None = None) -> tuple[bool, bool]:
    """Whether no number is large, other than infinite ones; and whether none is infinite or undefined,
    also of those that are computed on the way."""
    finite = True

    def noted(data: Array) -> Array:
        nonlocal finite
        finite = finite and bool(np.all(np.isfinite(data)))
        return data

    with np.errstate(all="ignore"):
        numbers = [noted(one) for one in _numbers(computed(case, noted, samples))]
    return not any(bool(np.any(np.isfinite(n) & (np.abs(n) > _LARGEST))) for n in numbers), finite


def cancels(case: Case, samples: Sequence[RandomSample] | None = None) -> bool:
    """Whether rounding errors are all that is left of a gradient, as of the sum of a softmax."""
    with np.errstate(all="ignore"):
        expected = computed(case, samples=samples)
    gradients = [*(expected.gradients or {}).values(), *(expected.again or {}).values()]
    largest = (np.max(np.abs(g), initial=0.0) for g in gradients if g is not None)
    return any(0 < one < _LEAST for one in largest)


def vanishes(case: Case, samples: Sequence[RandomSample] | None = None) -> bool:
    """Whether nothing, or rounding errors alone, are left of some result, in forward or backward, or of
    a gradient no more than the tolerance: what is lost of it does not show."""
    rng = np.random.default_rng(case.seed)
    found = False

    def noted(data: Array) -> Array:
        nonlocal found
        found |= data.size > 0 and bool(np.max(np.abs(data)) < _LEAST)
        return np.multiply(data, 1 + _ROUNDING[1e-9] * rng.uniform(-1, 1, data.shape))

    with np.errstate(all="ignore"):
        gradients = (computed(case, noted, samples).gradients or {}).values()
    within = (
        np.max(np.abs(g), initial=0.0) <= case.tolerance.atol for g in gradients if g is not None
    )
    return found or any(within)


def _numbers(expected: Expected) -> Iterator[Array]:
    """All arrays of an evaluation."""
    named = chain((expected.gradients or {}).values(), (expected.again or {}).values())
    yield from (array for _, array in quantities(expected))
    yield from (array for array in named if array is not None)
    yield from (expected.state or {}).values()
