"""Large arrays in results files: some of their elements, and what was measured over all of them.

A check has looked at every element when the case ran. A results file keeps what is needed to hold
variants against each other and to show: an array of up to `LARGE` elements as it is, and of a larger
one its shape and magnitude, where it lay furthest from the plain run and from the expectation, and
about `KEPT` elements spread over it; all of them if the variant's own checks found fault with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.judge.arrays import HEAD, absolute_differences, wide
from conformance.model.observation import Array

#: Elements up to which an array is kept whole.
LARGE = 4096
#: Elements, roughly, that are kept of a larger one; a summary's are always among them.
KEPT = 1024


@dataclass(frozen=True)
class Furthest:
    """The largest absolute difference from another array, and its place in C order.

    It is infinite where only one of two elements is finite: what they are then stands in `pair`, the
    array's own first.
    """

    distance: float
    place: int
    pair: tuple[str, str] = ("", "")


class Part(np.ndarray[Any, Any]):
    """Elements of a large array, in one dimension: those at its `positions` in C order, or all of them.

    `whole` is the shape of the array. `peak` is the greatest magnitude among all its finite elements.
    `from_plain` and `from_expected` are taken over all elements, against the plain run's array and
    the expected one; `None` where there was no array of the same shape.
    """

    whole: tuple[int, ...] = ()
    peak: float = 0.0
    from_plain: Furthest | None = None
    from_expected: Furthest | None = None

    @property
    def complete(self) -> bool:
        """Whether all elements are here."""
        return self.size == math.prod(self.whole)

    def thinned(self) -> Part:
        """The part without elements that an incomplete one lacks."""
        if not self.complete:
            return self
        fewer: Array = self.view(np.ndarray)[positions(self.size)]
        return make_part(fewer, self.whole, self.peak, self.from_plain, self.from_expected)


def make_part(
    elements: Array,
    whole: tuple[int, ...],
    peak: float,
    from_plain: Furthest | None,
    from_expected: Furthest | None,
) -> Part:
    """A part with everything that is known of it."""
    part = elements.view(Part)
    part.whole, part.peak = whole, peak
    part.from_plain, part.from_expected = from_plain, from_expected
    return part


def part_of(
    array: Array,
    plain: Array | None = None,
    expected: Array | None = None,
    *,
    all_of_it: bool = False,
) -> Array:
    """What a results file keeps of an array: itself, or a `Part` of a large one.

    `plain` and `expected` are the arrays to measure differences from.
    """
    if isinstance(array, Part) or array.size <= LARGE:
        return array
    flat = np.ascontiguousarray(array).reshape(-1)
    return make_part(
        flat if all_of_it else flat[positions(flat.size)],
        array.shape,
        magnitude(array),
        furthest(array, plain),
        furthest(array, expected),
    )


def aligned(*arrays: Array) -> list[Array]:
    """Arrays of one shape, restricted to the elements that all of them have."""
    if not any(isinstance(array, Part) for array in arrays):
        return list(arrays)
    large = [part_of(array, all_of_it=True) for array in arrays]
    parts = [array for array in large if isinstance(array, Part)]
    if all(part.complete for part in parts):
        return large
    return [part.thinned() for part in parts]


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


def magnitude(array: Array) -> float:
    """The greatest magnitude among the finite elements; 0 where there are none."""
    if isinstance(array, Part):
        return array.peak
    sizes = np.abs(wide(array))
    return float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))


def difference(a: Array, b: Array) -> float:
    """The largest absolute difference of two arrays of one shape, as far as both are at hand."""
    return float(absolute_differences(*aligned(a, b)).max(initial=0.0))


def furthest(a: Array, b: Array | None) -> Furthest | None:
    """Where an array lies furthest from another; `None` where that has not its shape."""
    if b is None or isinstance(b, Part) or a.shape != b.shape:
        return None
    distances = absolute_differences(a, b).reshape(-1)
    place = int(np.argmax(distances))
    if np.isfinite(distances[place]):
        return Furthest(float(distances[place]), place)
    return Furthest(math.inf, place, (element(a, place), element(b, place)))


def element(array: Array, place: int) -> str:
    """An element of an array, by its place in C order, in words."""
    return f"{wide(array).reshape(-1)[place]:.6g}"
