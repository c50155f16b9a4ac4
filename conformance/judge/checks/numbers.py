"""Comparing arrays, and saying in one line how they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from conformance.judge.tolerance import bound
from conformance.model.case import Tolerance
from conformance.model.observation import Array, Leaf, Tree


def difference(observed: Array, expected: Array, tolerance: Tolerance | None) -> str:
    """Empty where the arrays agree, else how they differ; `None` asks for equality bit for bit."""
    if observed.shape != expected.shape:
        return f"is of shape {observed.shape}, but should be {expected.shape}"
    if tolerance is None:
        agree = np.asarray(observed == expected) | _both_nan(observed, expected)
    else:
        wide, right = observed.astype(np.float64), expected.astype(np.float64)
        with np.errstate(all="ignore"):
            near = np.isfinite(right) & (np.abs(wide - right) <= bound(right, tolerance))
        agree = np.asarray(near | (wide == right) | (np.isnan(wide) & np.isnan(right)))
    if bool(np.all(agree)):
        return ""
    with np.errstate(all="ignore"):
        distance = np.abs(observed.astype(np.float64) - expected.astype(np.float64))
    distance = np.where(agree, 0, np.where(np.isnan(distance), np.inf, distance))
    worst = np.unravel_index(int(np.argmax(distance)), distance.shape)
    place = f" at {[int(i) for i in worst]}" if worst else ""
    count = int(np.size(agree) - np.count_nonzero(agree))
    return (
        f"differs in {count} of {np.size(agree)} elements, most{place}: "
        f"{float(observed[worst]):.7g}, but should be {float(expected[worst]):.7g}"
    )


def _both_nan(a: Array, b: Array) -> Array:
    if a.dtype.kind != "f" or b.dtype.kind != "f":
        return np.zeros(a.shape, dtype=bool)
    return np.asarray(np.isnan(a) & np.isnan(b))


def flat(
    tree: Tree, path: str = "outputs"
) -> Iterator[tuple[str, Leaf | str | float | int | None]]:
    """The leaves of an output tree with their paths: `outputs[1]['gate']`."""
    if isinstance(tree, list | tuple):
        for i, part in enumerate(tree):
            yield from flat(part, f"{path}[{i}]")
    elif isinstance(tree, Mapping):
        for key in sorted(tree):
            yield from flat(tree[key], f"{path}[{key!r}]")
    else:
        yield path, tree


def summary(array: Array | None) -> str:
    """An array in a few words: shape and first elements."""
    if array is None:
        return "None"
    first = ", ".join(f"{float(v):.6g}" for v in np.ravel(array)[:4])
    dots = ", …" if array.size > 4 else ""
    return f"{tuple(array.shape)} [{first}{dots}]"
