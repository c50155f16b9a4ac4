"""How far the arrays of two runs differ, and how far they may. Pure functions of NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from conformance.model.checked import Compared, Differs, What
from conformance.model.observation import Array, Leaf

#: The part of an array's largest element by which rounding may move its elements, by dtype. The steps
#: between two runs are the same operations, in another order at most.
ROUNDING = {"float64": 1e-9, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
#: An array is measured at least by this part of the largest element of all arrays beside it: what is
#: smaller is the rest of a cancellation.
FLOOR = 0.1
#: By how much more than two plain runs a recomputed one may differ from the first, where those differ.
SPREAD = 4.0
#: How many of the arrays that differ are shown.
SHOWN = 5
#: What an array is read from: `None` stands for no array, such as a missing gradient.
Values = Mapping[str, Leaf | None]


class Distance(NamedTuple):
    """The largest absolute difference of two arrays, its place, and the largest element of the first."""

    largest: float
    place: tuple[int, ...]
    scale: float


def distance(first: Array, second: Array) -> Distance:
    """How far two arrays of one shape are from each other. The same infinities and NaN are equal."""
    if first.size == 0:
        return Distance(0.0, (), 0.0)
    sizes = np.abs(first)
    finite = np.isfinite(sizes)
    scale = float(np.max(sizes, where=finite, initial=0)) if finite.any() else 0.0
    if np.array_equal(first, second):
        return Distance(0.0, (), scale)
    wide = np.complex128 if first.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(np.asarray(first, wide) - np.asarray(second, wide))
    equal = (first == second) | ((first != first) & (second != second))
    apart = np.where(equal, 0.0, np.where(np.isnan(apart), np.inf, apart))
    place = np.unravel_index(int(np.argmax(apart)), apart.shape)
    return Distance(float(apart[place]), tuple(int(i) for i in place), scale)


def spread(plain: Values, control: Values) -> Mapping[str, float]:
    """How far the arrays of two plain runs are apart, by name; only of those that are."""
    found = {}
    for name, leaf in plain.items():
        other = control.get(name)
        if leaf is None or other is None or leaf.array.shape != other.array.shape:
            if leaf is not other:
                found[name] = float("inf")
        elif (apart := distance(leaf.array, other.array).largest) > 0:
            found[name] = apart
    return found


def compared(
    what: What,
    step: int,
    plain: Values,
    other: Values,
    spreads: Mapping[str, float],
    tolerance: float | None = None,
) -> Compared:
    """Hold arrays to those of the plain run. `tolerance` replaces the relative one of each dtype."""
    sizes = [_scale(leaf.array) for leaf in plain.values() if leaf is not None]
    floor = FLOOR * max(sizes, default=0.0)
    wrong: list[Differs] = []
    largest = 0.0
    for name, leaf, given in _pairs(plain, other):
        if np.isinf(spreads.get(name, 0.0)):  # two plain runs differ in shape already
            continue
        structural = _otherwise(name, leaf, given)
        if structural is not None:
            wrong.append(structural)
        if structural is not None or leaf is None or given is None:
            continue
        far = distance(leaf.array, given.array)
        if far.largest == 0:
            continue
        scale = max(far.scale, floor)
        relative = ROUNDING.get(leaf.dtype, 0.0) if tolerance is None else tolerance
        allowed = relative * scale + SPREAD * spreads.get(name, 0.0)
        if far.largest <= allowed:
            largest = max(largest, far.largest / scale if scale else far.largest)
            continue
        zeros = not np.any(given.array) and bool(np.any(leaf.array))
        one, two = (_number(array[far.place]) for array in (leaf.array, given.array))
        wrong.append(
            Differs(name, "zeros" if zeros else "values", one, two, far.place, far.largest, allowed)
        )
    wrong.sort(key=_gravity)
    return Compared(what, step, len({**plain, **other}), len(wrong), tuple(wrong[:SHOWN]), largest)


def _pairs(plain: Values, other: Values) -> Iterator[tuple[str, Leaf | None, Leaf | None]]:
    for name in {**plain, **other}:
        yield name, plain.get(name), other.get(name)


def _otherwise(name: str, plain: Leaf | None, other: Leaf | None) -> Differs | None:
    """What differs before any number does: one of them is missing, or has another shape or dtype."""
    if plain is None and other is None:
        return None
    if other is None:
        return Differs(name, "missing", _described(plain), "none", distance=float("inf"))
    if plain is None:
        return Differs(name, "extra", "none", _described(other), distance=float("inf"))
    if plain.array.shape != other.array.shape:
        one, two = str(plain.array.shape), str(other.array.shape)
        return Differs(name, "shape", one, two, distance=float("inf"))
    if plain.dtype != other.dtype:
        return Differs(name, "dtype", plain.dtype, other.dtype, distance=float("inf"))
    return None


def _gravity(one: Differs) -> tuple[bool, float]:
    """The worst first: what is missing, then what is furthest from what it may be."""
    return one.kind not in ("missing", "extra", "shape"), -one.distance / (one.allowed or 1e-30)


def _scale(array: Array) -> float:
    sizes = np.abs(array)
    return float(np.max(sizes, where=np.isfinite(sizes), initial=0)) if sizes.size else 0.0


def _described(leaf: Leaf | None) -> str:
    if leaf is None or leaf.dtype.startswith("text "):
        return "none" if leaf is None else leaf.dtype.removeprefix("text ")
    return f"{leaf.dtype}{list(leaf.array.shape)}"


def _number(element: object) -> str:
    return f"{element:.7g}" if isinstance(element, float | np.floating) else str(element)
