"""Comparing arrays: how far they differ and may differ, and when `None` and zero gradients are equal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from conformance.judge.limits import GROWTH
from conformance.model.case import Case, Tolerance
from conformance.model.facts import Difference, number
from conformance.model.observation import Array, Expected, Leaf, Run, Tree

Against = Literal["plain run", "reference"]
#: Elements at the beginning of an array that a summary shows.
HEAD = 4


def wide(array: Array) -> NDArray[np.inexact[Any]]:
    """The array in double precision."""
    return array.view(np.ndarray).astype(np.complex128 if array.dtype.kind == "c" else np.float64)


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
    error = GROWTH * inaccuracy(case, accuracy)
    return Tolerance(case.tolerance.rtol, max(case.tolerance.atol, error))


def inaccuracy(case: Case, accuracy: Mapping[str, float]) -> float:
    """The greatest absolute error of the operations of a case and its losses that `accuracy` names."""
    used = {statement.op for _, statement in case.statements()}
    used |= {loss.reduction for loss in (case.loss, case.then) if loss}
    return max((greatest for op, greatest in accuracy.items() if op in used), default=0.0)


def absolute_differences(first: Array, second: Array) -> NDArray[np.float64]:
    """Absolute differences of two arrays of one shape, element by element.

    They are 0 where both are the same infinity or NaN, infinite where only one is.
    """
    a, b = wide(first), wide(second)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(a - b)
    difference = np.where(np.isnan(difference), np.inf, difference)
    return np.asarray(np.where(same(a, b), 0.0, difference), np.float64)


def same(first: Array, second: Array) -> NDArray[np.bool_]:
    """Where two arrays of one shape have equal elements; NaN is equal to NaN."""
    equal: NDArray[np.bool_] = np.asarray(first == second)
    if first.dtype.kind in "fc" and second.dtype.kind in "fc":
        equal = equal | (np.isnan(first) & np.isnan(second))
    return equal


def near(
    first: NDArray[np.inexact[Any]],
    second: NDArray[np.inexact[Any]],
    tolerance: Tolerance,
    like: Array,
) -> NDArray[np.bool_]:
    """Where the elements of two stacks of arrays agree; each array is a row. The tolerance is relative
    to the magnitudes in `like`: the expected array or, where neither is, the larger ones of both."""
    with np.errstate(invalid="ignore", over="ignore"):
        tolerated = np.abs(first - second) <= bounds(np.abs(like), tolerance)
    finite = np.isfinite(first) & np.isfinite(second)
    return np.where(finite, tolerated, same(first, second))


def agreement(observed: Array, expected: Array, tolerance: Tolerance | None) -> NDArray[np.bool_]:
    """Where an array agrees with what is expected, of the same shape; `None` asks for equality."""
    if tolerance is None:
        return same(observed, expected)
    rows = [wide(array).reshape(1, -1) for array in (observed, expected)]
    return near(rows[0], rows[1], tolerance, rows[1]).reshape(expected.shape)


def differs(observed: Array, expected: Array, tolerance: Tolerance | None) -> bool:
    """Whether two arrays differ, in shape or in elements; `None` asks for equality bit for bit."""
    alike = observed.shape == expected.shape
    return not (alike and bool(np.all(agreement(observed, expected, tolerance))))


def difference(
    of: str,
    name: str,
    observed: Array,
    expected: Array,
    tolerance: Tolerance | None,
    against: Against,
    *,
    in_plain: bool = False,
) -> Difference | None:
    """How an array differs from what is expected; `None` where it agrees, as in `differs`. The other
    arguments are fields of the fact."""
    fact = partial(Difference, of, name, against=against, in_plain=in_plain)
    if observed.shape != expected.shape:
        return fact(kind="shape", observed_shape=observed.shape, expected_shape=expected.shape)
    agree = agreement(observed, expected, tolerance)
    if bool(np.all(agree)):
        return None
    distance = np.where(agree, 0, absolute_differences(observed, expected))
    worst = np.unravel_index(int(np.argmax(distance)), distance.shape)
    return fact(
        kind="elements",
        wrong=int(np.size(agree) - np.count_nonzero(agree)),
        size=int(np.size(agree)),
        place=tuple(int(i) for i in worst),
        observed=number(float(observed[worst])),
        expected=number(float(expected[worst])),
    )


def is_none_or_zero(gradient: Array | None) -> bool:
    """Whether a gradient is `None` or zeros: either says that the loss does not depend on the tensor."""
    return gradient is None or not np.any(gradient)


def is_unexpected(gradient: Array | None, plain: Array | None) -> bool:
    """Whether there is a gradient where the plain run of the same variant has `None`. Zeros are a fault
    there, too: an optimizer applies weight decay to a parameter with a zero gradient."""
    return gradient is not None and plain is None


def summary(array: Array | None, digits: int = 6) -> str:
    """An array in a few words: its shape and first elements."""
    if array is None:
        return "None"
    first = ", ".join(f"{element:.{digits}g}" for element in wide(array).reshape(-1)[:HEAD])
    dots = ", …" if array.size > HEAD else ""
    return f"{array.shape} [{first}{dots}]"


def summaries(expected: Array | None, observed: Array | None) -> tuple[str, str]:
    """Two arrays in a few words, with more digits where they look the same without."""
    pairs = [(summary(expected, n), summary(observed, n)) for n in range(6, 18)]
    return next((pair for pair in pairs if pair[0] != pair[1]), pairs[0])


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


def tensors(tree: Tree, path: str = "outputs") -> Iterator[tuple[str, Array]]:
    """The leaves of an output tree that are numbers, as arrays. The check `structure` tells a number and
    a tensor without dimensions apart."""
    for place, leaf in flat(tree, path):
        if isinstance(leaf, Leaf):
            yield place, np.asanyarray(leaf.array)
        elif isinstance(leaf, bool | int | float):
            yield place, np.asarray(leaf)


def quantities(source: Run | Expected) -> Iterator[tuple[str, Array]]:
    """What a run computes beside gradients and state, by name: tensors and numbers among the outputs,
    losses, and trained parameters."""
    yield from tensors(source.outputs)
    if source.losses:
        yield "losses", np.array(source.losses)
    for name, array in (source.parameters or {}).items():
        yield f"parameter {name}", array
