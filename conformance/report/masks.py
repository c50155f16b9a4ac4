"""What a random operation gave in forward and in the rerun, as two pictures beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from conformance.model.observation import Array, RandomSample
from conformance.results import Result
from conformance.words import counted

#: Pictures of a case, and the rows and columns of one: what is larger is cut there.
_MOST, _ROWS, _COLUMNS = 6, 16, 32
#: Units of the SVG: the side of an element, between the pictures, and above them.
_SIDE, _GAP, _TOP = 11, 24, 16
#: Greys from 0 (zero) to that of the largest magnitude.
_GREYS = 5


@dataclass(frozen=True)
class Square:
    """An element: its place, its grey (0 is zero), and whether the other run has another one there."""

    x: int
    y: int
    grey: int
    other: bool
    side: int = _SIDE - 3


@dataclass(frozen=True)
class Mask:
    """Both pictures of one random operation, of variants that drew the same."""

    variants: tuple[str, ...]
    words: str
    said: str
    titles: tuple[tuple[int, str], ...]
    squares: tuple[Square, ...]
    width: int
    height: int


def masks(results: Mapping[str, Result]) -> tuple[Mask, ...]:
    """A picture for each random operation that drew other numbers when it ran again."""
    alike: dict[tuple[str, bytes, bytes], tuple[list[str], RandomSample, RandomSample]] = {}
    for variant, result in results.items():
        for forward, rerun in _pairs(result):
            place = f"{forward.statement} in region {forward.region}"
            key = place, forward.array.tobytes(), rerun.array.tobytes()
            alike.setdefault(key, ([], forward, rerun))[0].append(variant)
    drawn = [_mask(tuple(names), a, b) for names, a, b in alike.values()]
    return tuple(drawn[:_MOST])


def _pairs(result: Result) -> Iterator[tuple[RandomSample, RandomSample]]:
    """The first forward draw and the first of the rerun, of each random operation."""
    seen = None if result.observation is None else result.observation.recomputed.samples
    forward: dict[tuple[str, str], RandomSample] = {}
    told: set[tuple[str, str]] = set()
    for draw in seen or ():
        place = draw.region, draw.statement
        if draw.phase == "forward":
            forward.setdefault(place, draw)
        elif place in forward and place not in told:
            told.add(place)
            if draw.array.shape == forward[place].array.shape and draw.array.size:
                yield forward[place], draw


def _mask(variants: tuple[str, ...], forward: RandomSample, rerun: RandomSample) -> Mask:
    ours, theirs = _cut(forward.array), _cut(rerun.array)
    other = ours != theirs
    whole = forward.array != rerun.array
    rows, columns = ours.shape
    step = columns * _SIDE + _GAP
    squares = [
        Square(number * step + j * _SIDE, _TOP + i * _SIDE, int(grey[i, j]), bool(other[i, j]))
        for number, grey in enumerate(_greys(ours, theirs))
        for i in range(rows)
        for j in range(columns)
    ]
    place = f"{forward.statement} in region {forward.region}"
    differ = f"{int(whole.sum())} of {counted(forward.array.size, 'element')} are not the same"
    zeros = [int((draw.array == 0).sum()) for draw in (forward, rerun)]
    dropped = f"; {zeros[0]} zeros in forward, {zeros[1]} when it runs again" if any(zeros) else ""
    return Mask(
        variants,
        f"{place}: {differ}",
        f"{place}, in forward and again: {differ}{dropped}",
        ((0, "forward"), (step, "again")),
        tuple(squares),
        max(step + columns * _SIDE, step + 60),
        _TOP + rows * _SIDE,
    )


def _cut(array: Array) -> Array:
    """An array in two dimensions, as far as it is drawn."""
    flat = np.asarray(array)
    columns = flat.shape[-1] if flat.ndim else 1
    return flat.reshape(-1, columns)[:_ROWS, :_COLUMNS]


def _greys(*arrays: Array) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int_]], ...]:
    """The grey of each element, on one scale for all arrays."""
    sizes = [np.nan_to_num(np.abs(array.astype(np.float64))) for array in arrays]
    most = max(float(size.max()) for size in sizes) or 1.0
    return tuple(np.ceil(size / most * _GREYS).astype(np.int_) for size in sizes)
