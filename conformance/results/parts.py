"""Large arrays in results files: some of their elements, and what was measured over all of them.

A check has looked at every element when the case ran. A results file keeps what is needed to hold
variants against each other and to show: an array of up to `LARGE` elements whole, of a larger one
about `KEPT` elements spread over it, its shape and magnitude, and how far the whole of it lay from
the plain run and from the expectation.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.observation import Array

#: Elements up to which an array is kept whole.
LARGE = 4096
#: Elements, roughly, that are kept of a larger one.
KEPT = 1024
#: Elements at the beginning that are kept of every array: a summary shows them.
HEAD = 4


class Part(np.ndarray[Any, Any]):
    """Elements of a large array, in one dimension: those at `positions` of the array in C order.

    `whole` is the shape of the array. `peak` is the greatest magnitude among all its finite elements.
    `from_plain` and `from_expected` are the largest absolute differences over all elements from the
    plain run's array and from the expected one, infinite where only one of two elements is finite;
    `None` where there was no array of the same shape.
    """

    whole: tuple[int, ...] = ()
    peak: float = 0.0
    from_plain: float | None = None
    from_expected: float | None = None


def made(
    elements: Array,
    whole: tuple[int, ...],
    peak: float,
    from_plain: float | None,
    from_expected: float | None,
) -> Part:
    """A part with everything that is known of it."""
    part = elements.view(Part)
    part.whole, part.peak = whole, peak
    part.from_plain, part.from_expected = from_plain, from_expected
    return part


def kept(array: Array, plain: Array | None = None, expected: Array | None = None) -> Array:
    """What a results file keeps of an array: itself, or a `Part` of a large one.

    `plain` and `expected` are the arrays to measure differences from.
    """
    if isinstance(array, Part) or array.size <= LARGE:
        return array
    flat = np.ascontiguousarray(array).reshape(-1)
    return made(
        flat[positions(flat.size)],
        array.shape,
        magnitude(array),
        difference(array, plain),
        difference(array, expected),
    )


@lru_cache(maxsize=256)
def positions(size: int) -> NDArray[np.intp]:
    """The places of the kept elements of an array of `size` elements, in order.

    The step between them has no divisor in common with any dimension, so that they run through all
    columns.
    """
    step = next(n for n in count(max(1, math.ceil(size / KEPT))) if math.gcd(n, size) == 1)
    return np.union1d(np.arange(min(HEAD, size)), np.arange(0, size, step)).astype(np.intp)


def shape_of(array: Array) -> tuple[int, ...]:
    """The shape of an array, or of the array that a part is of."""
    return array.whole if isinstance(array, Part) else array.shape


def wide(array: Array) -> NDArray[np.inexact[Any]]:
    """An array in double precision."""
    plain: NDArray[np.generic] = array.view(np.ndarray)
    found: NDArray[np.inexact[Any]] = plain.astype(
        np.complex128 if array.dtype.kind == "c" else np.float64
    )
    return found


def apart(first: Array, second: Array) -> NDArray[np.float64]:
    """Absolute differences of two arrays of one shape, element by element.

    They are 0 where both are the same infinity or NaN, infinite where only one is.
    """
    a, b = wide(first), wide(second)
    with np.errstate(invalid="ignore"):
        found = np.abs(a - b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    result: NDArray[np.float64] = np.where(
        same, 0.0, np.where(np.isnan(found), np.inf, found)
    ).astype(np.float64)
    return result


def magnitude(array: Array) -> float:
    """The greatest magnitude among the finite elements; 0 where there are none."""
    if isinstance(array, Part):
        return array.peak
    sizes = np.abs(wide(array))
    return float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))


def difference(a: Array, b: Array | None) -> float | None:
    """The largest absolute difference of two arrays; `None` where there are no two of one shape."""
    if b is None or isinstance(b, Part) or a.shape != b.shape:
        return None
    return float(apart(a, b).max(initial=0.0))
