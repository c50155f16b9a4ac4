"""Outputs, losses, gradients, parameters: the same numbers in every variant and the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

import numpy as np
from numpy.typing import NDArray

from conformance.case import Tolerance
from conformance.compare.grouping import absence, majority, partition, settle
from conformance.compare.model import EXPECTATION, CrossStatus, CrossVerdict, Group
from conformance.observation import Expected, Leaf, Run, Tree
from conformance.results import Result
from conformance.tolerance import bound

#: What is known of the random numbers of a case.
Randomness = OneOf["none", "preserved", "not preserved", "unknown"]
RANDOM_NOTES: Mapping[str, str] = {
    "preserved": "random: compared within each framework only",
    "not preserved": "random, and random state is not preserved: nothing to compare",
    "unknown": "random: compared only where the cases are at hand",
}
Numbers = NDArray[np.generic]


@dataclass(frozen=True)
class Missing:
    """No entry where others have one."""


Value = Numbers | Missing | None
Subject = tuple[str, str]


def compare_numbers(
    case: str, results: Mapping[str, Result], tolerance: Tolerance, randomness: Randomness
) -> Iterator[CrossVerdict]:
    """Verdicts on every array of a case.

    Arrays of deterministic cases are held against each other and against the expectation (float64).
    Where a case draws random numbers, generators differ between frameworks: there only variants of
    one framework are compared, and only those whose plain runs drew the same. Where random state is
    not preserved, gradients are those of other draws, and nothing is compared.
    """
    absent = {v: why for v, r in results.items() if (why := absence(r, "value"))}
    present = {v: r for v, r in results.items() if v not in absent}
    if randomness != "none":
        note = RANDOM_NOTES[randomness]
        yield CrossVerdict(case, "value", "values", CrossStatus.SKIPPED, note, absent=absent)
    if randomness == "preserved":
        for same in _drew_the_same(present, tolerance):
            chosen = {v: present[v] for v in same}
            yield from _compare(case, chosen, tolerance, None, {})
    if randomness != "none":
        return
    expected = next((r.expected for r in present.values() if r.expected is not None), None)
    yield from _compare(case, present, tolerance, expected, absent)


def _compare(
    case: str,
    results: Mapping[str, Result],
    tolerance: Tolerance,
    expected: Expected | None,
    absent: Mapping[str, str],
) -> Iterator[CrossVerdict]:
    if len(results) < 2:
        return
    anchor = {} if expected is None else values_of(expected)
    found = {v: values_of(r.observation.recomputed) for v, r in results.items() if r.observation}
    subjects = dict.fromkeys(s for values in (anchor, *found.values()) for s in values)
    for check, subject in subjects:
        key = (check, subject)
        entries: dict[str, Value] = {}
        if key in anchor:
            entries[EXPECTATION] = anchor[key]
        entries |= {v: values.get(key, Missing()) for v, values in found.items()}
        if key in anchor and anchor[key] is None:
            entries = {name: _nothing_flows(value) for name, value in entries.items()}
        yield _verdict(case, check, subject, entries, results, tolerance, absent)


def _verdict(
    case: str,
    check: str,
    subject: str,
    entries: Mapping[str, Value],
    results: Mapping[str, Result],
    tolerance: Tolerance,
    absent: Mapping[str, str],
) -> CrossVerdict:
    names = partition(entries, lambda a, b: close(a, b, tolerance))
    groups = tuple(Group(members, summary(entries[members[0]])) for members in names)
    chosen = majority(names, results, check)
    main = groups[names.index(chosen)]

    def difference(group: Group) -> str:
        pairs = [(entries[a], entries[b]) for a in group.variants for b in main.members]
        return worst(*next(pair for pair in pairs if not close(*pair, tolerance)))

    wrong = [group for group in groups if group is not main and group.variants]
    return settle(case, check, subject, groups, main, wrong, results, absent, difference)


def _drew_the_same(
    results: Mapping[str, Result], tolerance: Tolerance
) -> Iterator[tuple[str, ...]]:
    """Variants of one framework whose plain runs agree: these drew the same numbers."""
    plain: dict[str, dict[Subject, Value]] = {}
    for variant, result in results.items():
        if result.observation is not None:
            values = values_of(result.observation.plain)
            plain[variant] = {k: v for k, v in values.items() if k[0] == "value"}

    def agree(a: Mapping[Subject, Value], b: Mapping[Subject, Value]) -> bool:
        return a.keys() == b.keys() and all(close(a[k], b[k], tolerance) for k in a)

    for adapter in dict.fromkeys(variant.partition("/")[0] for variant in plain):
        mine = {v: values for v, values in plain.items() if v.partition("/")[0] == adapter}
        yield from (group for group in partition(mine, agree) if len(group) > 1)


# -- arrays ----------------------------------------------------------------------------------------


def values_of(source: Run | Expected) -> dict[Subject, Value]:
    """Every array of a run or an expectation, by check and by its name in a sentence."""
    found: dict[Subject, Value] = {}
    if source.outputs is not None:
        for path, array in tensors(source.outputs):
            found["value", f"output{path}"] = array
    if source.losses:
        name = "the loss" if len(source.losses) == 1 else "the losses"
        found["value", name] = np.array(source.losses)
    for name, gradient in (source.gradients or {}).items():
        found["gradient", f"gradient of {name}"] = gradient
    for name, gradient in (source.again or {}).items():
        found["gradient", f"second gradient of {name}"] = gradient
    for name, parameter in (source.parameters or {}).items():
        found["value", f"parameter {name}"] = parameter
    return found


def tensors(tree: Tree, path: str = "") -> Iterator[tuple[str, Numbers]]:
    """The tensors and numbers of an output tree with their paths (`[0]['aux']`).

    A number and a tensor without dimensions are the same value here; telling them apart is for the
    check of structure.
    """
    if isinstance(tree, Leaf):
        yield path, tree.array
    elif isinstance(tree, bool | int | float):
        yield path, np.asarray(tree)
    elif isinstance(tree, dict):
        for key, part in tree.items():
            yield from tensors(part, f"{path}[{key!r}]")
    elif isinstance(tree, list | tuple):
        for index, part in enumerate(tree):
            yield from tensors(part, f"{path}[{index}]")


def close(a: Value, b: Value, tolerance: Tolerance) -> bool:
    """Whether two values agree; symmetric, and NaN agrees with NaN."""
    if a is None or b is None or isinstance(a, Missing) or isinstance(b, Missing):
        return type(a) is type(b)
    if a.shape != b.shape:
        return False
    first, second = _wide(a), _wide(b)
    scale = np.maximum(np.abs(first), np.abs(second))
    with np.errstate(invalid="ignore"):
        near = np.abs(first - second) <= bound(scale, tolerance)
    finite = np.isfinite(first) & np.isfinite(second)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return bool(np.all(np.where(finite, near, same)))


def worst(a: Value, b: Value) -> str:
    """How `a` differs from `b`, in words: the largest difference and where it is."""
    if a is None or b is None or isinstance(a, Missing) or isinstance(b, Missing):
        return f"{_kind(a)} against {_kind(b)}"
    if a.shape != b.shape:
        return f"shape {a.shape} against {b.shape}"
    first, second, apart = _wide(a), _wide(b), _apart(a, b)
    index = np.unravel_index(int(np.argmax(apart)), apart.shape)
    place = f" at [{', '.join(str(i) for i in index)}]" if index else ""
    if np.isinf(apart[index]):
        return f"{first[index]:.6g} against {second[index]:.6g}{place}"
    return f"max difference {apart[index]:.3g}{place}"


def largest_difference(a: Value, b: Value) -> float | None:
    """The largest absolute difference of two arrays; `None` where there are no two of one shape."""
    if a is None or b is None or isinstance(a, Missing) or isinstance(b, Missing):
        return None
    return float(_apart(a, b).max(initial=0.0)) if a.shape == b.shape else None


def _apart(a: Numbers, b: Numbers) -> NDArray[np.float64]:
    """Absolute differences; 0 where both are the same infinity or NaN, infinite where one is."""
    first, second = _wide(a), _wide(b)
    with np.errstate(invalid="ignore"):
        apart = np.abs(first - second)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    found: NDArray[np.float64] = np.where(
        same, 0.0, np.where(np.isnan(apart), np.inf, apart)
    ).astype(np.float64)
    return found


def summary(value: Value) -> str:
    """A value in a few words: shape, and the elements where they are few."""
    if isinstance(value, Missing):
        return "missing"
    if value is None:
        return "None"
    flat = value.ravel()
    shown = ", ".join(f"{x:.6g}" for x in flat[:4])
    more = ", …" if flat.size > 4 else ""
    return f"shape {value.shape}: {shown}{more}" if value.shape else f"{flat[0]:.6g}"


def _kind(value: Value) -> str:
    if isinstance(value, Missing) or value is None:
        return summary(value)
    return f"an array of shape {value.shape}"


def _wide(array: Numbers) -> NDArray[np.inexact[Any]]:
    wide: NDArray[np.inexact[Any]] = array.astype(
        np.complex128 if array.dtype.kind == "c" else np.float64
    )
    return wide


def _nothing_flows(value: Value) -> Value:
    """Where no gradient is expected, `None`, nothing and zeros are spellings of one answer."""
    if isinstance(value, Missing) or (value is not None and not np.any(value)):
        return None
    return value
