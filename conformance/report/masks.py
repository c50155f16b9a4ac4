"""Pictures of the random samples of an operation, in forward and in the rerun, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from conformance.model.observation import Array, RandomSample
from conformance.results import Result
from conformance.words import counted

#: The most pictures of a case, and the most rows and columns of an array that are drawn.
_MOST, _ROWS, _COLUMNS = 6, 16, 32
#: Units of the SVG: the side of an element, between the pictures, and above them.
_SIDE, _GAP, _TOP = 11, 24, 16
#: Greys from 0 (zero) to that of the largest magnitude.
_GREYS = 5


@dataclass(frozen=True)
class Square:
    """An element: its position in units of the SVG, its grey (0 is zero), whether the rerun differs."""

    x: int
    y: int
    grey: int
    other: bool
    side: int = _SIDE - 3


@dataclass(frozen=True)
class Mask:
    """Both pictures of a random operation, of all variants with the same samples."""

    variants: tuple[str, ...]
    words: str
    description: str
    titles: tuple[tuple[int, str], ...]
    squares: tuple[Square, ...]
    width: int
    height: int


def masks(results: Mapping[str, Result]) -> tuple[Mask, ...]:
    """At most `_MOST` masks: of random operations, forward and rerun, equal ones of variants as one."""
    alike: dict[tuple[str, bytes, bytes], tuple[list[str], RandomSample, RandomSample]] = {}
    for variant, result in results.items():
        for forward, rerun in _pairs(result):
            place = f"{forward.statement} in region {forward.region}"
            key = place, forward.array.tobytes(), rerun.array.tobytes()
            alike.setdefault(key, ([], forward, rerun))[0].append(variant)
    drawn = [_mask(tuple(names), a, b) for names, a, b in alike.values()]
    return tuple(drawn[:_MOST])


def _pairs(result: Result) -> Iterator[tuple[RandomSample, RandomSample]]:
    """The first sample of forward and the first of the rerun, for each random operation."""
    samples = None if result.observation is None else result.observation.recomputed.samples
    forward: dict[tuple[str, str], RandomSample] = {}
    yielded: set[tuple[str, str]] = set()
    for sample in samples or ():
        statement = sample.region, sample.statement
        if sample.phase == "forward":
            forward.setdefault(statement, sample)
        elif statement in forward and statement not in yielded:
            yielded.add(statement)
            if sample.array.shape == forward[statement].array.shape and sample.array.size:
                yield forward[statement], sample


def _mask(variants: tuple[str, ...], forward: RandomSample, rerun: RandomSample) -> Mask:
    ours, theirs = _cut(forward.array), _cut(rerun.array)
    differs = ours != theirs
    unequal = forward.array != rerun.array
    rows, columns = ours.shape
    step = columns * _SIDE + _GAP
    squares = [
        Square(number * step + j * _SIDE, _TOP + i * _SIDE, int(grey[i, j]), bool(differs[i, j]))
        for number, grey in enumerate(_greys(ours, theirs))
        for i in range(rows)
        for j in range(columns)
    ]
    statement = f"{forward.statement} in region {forward.region}"
    differ = f"{int(unequal.sum())} of {counted(forward.array.size, 'element')} are not the same"
    zeros = [int((draw.array == 0).sum()) for draw in (forward, rerun)]
    dropped = f"; {zeros[0]} zeros in forward, {zeros[1]} when it runs again" if any(zeros) else ""
    return Mask(
        variants,
        f"{statement}: {differ}",
        f"{statement}, in forward and again: {differ}{dropped}",
        ((0, "forward"), (step, "again")),
        tuple(squares),
        max(step + columns * _SIDE, step + 60),
        _TOP + rows * _SIDE,
    )


def _cut(array: Array) -> Array:
    """An array as a matrix of at most `_ROWS` by `_COLUMNS`."""
    flat = np.asarray(array)
    columns = flat.shape[-1] if flat.ndim else 1
    return flat.reshape(-1, columns)[:_ROWS, :_COLUMNS]


def _greys(*arrays: Array) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int_]], ...]:
    """The grey of each element, on one scale for all arrays."""
    sizes = [np.nan_to_num(np.abs(array.astype(np.float64))) for array in arrays]
    most = max(float(size.max()) for size in sizes) or 1.0
    return tuple(np.ceil(size / most * _GREYS).astype(np.int_) for size in sizes)
