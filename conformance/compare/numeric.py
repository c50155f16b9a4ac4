"""Outputs, losses, gradients, parameters: the same numbers in every variant and the reference."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal as OneOf

import numpy as np
from numpy.typing import NDArray

from conformance.compare.grouping import absence, cross_verdict, majority, partition
from conformance.compare.model import EXPECTATION, CrossStatus, CrossVerdict, Group
from conformance.judge import arrays
from conformance.judge.arrays import absolute_differences, quantities, wide
from conformance.judge.tolerance import bounds
from conformance.model.case import Tolerance
from conformance.model.observation import Expected, Run
from conformance.results import Result
from conformance.results.parts import (
    Furthest,
    Part,
    aligned,
    difference,
    element,
    magnitude,
    positions,
    shape_of,
)

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


@dataclass(frozen=True)
class Unasked:
    """A gradient of zeros where the plain run of the same variant has `None`."""


Value = Numbers | Missing | Unasked | None
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
    observed = {v: r.observation for v, r in results.items() if r.observation}
    recomputed = {v: values_of(o.recomputed) for v, o in observed.items()}
    plain = {v: values_of(o.plain) for v, o in observed.items()}
    subjects = dict.fromkeys(s for values in (anchor, *recomputed.values()) for s in values)
    for check, subject in subjects:
        key = (check, subject)
        entries: dict[str, Value] = {}
        if key in anchor:
            entries[EXPECTATION] = anchor[key]
        for v, values in recomputed.items():
            value = values.get(key, Missing())
            if check == "gradient":
                value = comparable_gradient(value, plain[v].get(key), anchor.get(key))
            entries[v] = value
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
    names = agreeing(entries, tolerance)
    groups = tuple(Group(members, summary(entries[members[0]])) for members in names)
    chosen = majority(names, results, check)
    main = groups[names.index(chosen)]

    def difference(group: Group) -> str:
        pairs = [(entries[a], entries[b]) for a in group.variants for b in main.members]
        return worst(*next(pair for pair in pairs if not close(*pair, tolerance)))

    wrong = [group for group in groups if group is not main and group.variants]
    return cross_verdict(case, check, subject, groups, main, wrong, results, absent, difference)


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
        own = {v: values for v, values in plain.items() if v.partition("/")[0] == adapter}
        identical: dict[object, list[str]] = {}
        for variant, values in own.items():
            fingerprint = tuple((k, _fingerprint(value)) for k, value in values.items())
            identical.setdefault(fingerprint, []).append(variant)
        by_first = {variants[0]: variants for variants in identical.values()}
        for group in partition({v: own[v] for v in by_first}, agree):
            members = {v for first in group for v in by_first[first]}
            if len(members) > 1:
                yield tuple(v for v in own if v in members)


# -- arrays ----------------------------------------------------------------------------------------


def values_of(source: Run | Expected) -> dict[Subject, Value]:
    """Every array of a run or an expectation, by check and by its name in a sentence."""
    values: dict[Subject, Value] = {("value", name): array for name, array in quantities(source)}
    for name, gradient in (source.gradients or {}).items():
        values["gradient", f"gradient of {name}"] = gradient
    for name, gradient in (source.again or {}).items():
        values["gradient", f"second gradient of {name}"] = gradient
    return values


def close(a: Value, b: Value, tolerance: Tolerance) -> bool:
    """Whether two values agree; symmetric, and NaN agrees with NaN."""
    if a is b:
        return True
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return type(a) is type(b)
    return shape_of(a) == shape_of(b) and bool(_agreements(a, [b], tolerance)[0])


def agreeing(values: Mapping[str, Value], tolerance: Tolerance) -> tuple[tuple[str, ...], ...]:
    """Groups of equal values: the same as `partition` with `close`, but faster.

    Most variants agree bit for bit, and are grouped first. Each remaining value is compared with
    all before it in one array operation.
    """
    #: Each group: its members, and the positions of their arrays in `distinct`.
    groups: list[tuple[list[str], set[int]]] = []
    members_by_fingerprint: dict[object, list[str]] = {}
    distinct: list[Numbers] = []
    for name, value in values.items():
        fingerprint = _fingerprint(value)
        if fingerprint in members_by_fingerprint:
            members_by_fingerprint[fingerprint].append(name)
            continue
        agrees: set[int] = set()
        if isinstance(value, np.ndarray):
            alike = [i for i, other in enumerate(distinct) if shape_of(other) == shape_of(value)]
            nearness = _agreements(value, [distinct[i] for i in alike], tolerance)
            agrees = {i for i, near in zip(alike, nearness, strict=True) if near}
            distinct.append(value)
            group = next((g for g in groups if g[1] and g[1] <= agrees), None)
            positions_in_distinct = {len(distinct) - 1}
        else:
            group, positions_in_distinct = None, set()
        if group is None:
            group = ([], set())
            groups.append(group)
        group[0].append(name)
        group[1].update(positions_in_distinct)
        members_by_fingerprint[fingerprint] = group[0]
    return tuple(tuple(members) for members, _ in groups)


def _fingerprint(value: Value) -> object:
    """A hashable key that is equal only for identical values."""
    if not isinstance(value, np.ndarray):
        return type(value)
    measured = None
    if isinstance(value, Part):
        measured = (value.peak, value.from_expected, value.from_plain)
    return shape_of(value), measured, wide(value).tobytes()


def _agreements(
    value: Numbers, others: Sequence[Numbers], tolerance: Tolerance
) -> NDArray[np.bool_]:
    """With which of several arrays of its shape a value agrees."""
    agreements = np.empty(len(others), np.bool_)
    lacking = [isinstance(other, Part) and not other.complete for other in others]
    # Apart: those with all elements are held against each other by all of them.
    for lacks in (False, True):
        chosen = [i for i, lacked in enumerate(lacking) if lacked == lacks]
        if chosen:
            agreements[chosen] = _near(
                *aligned(value, *(others[i] for i in chosen)), tolerance=tolerance
            )
    return agreements


def _near(value: Numbers, *others: Numbers, tolerance: Tolerance) -> NDArray[np.bool_]:
    """Which of several arrays are near a value, all with the same elements."""
    first = wide(value).reshape(1, -1)
    second = np.stack([wide(other).reshape(-1) for other in others])
    scale = np.maximum(np.abs(first), np.abs(second))
    peaks: float | NDArray[np.float64] = 0.0
    possible: bool | NDArray[np.bool_] = True
    if isinstance(value, Part):
        peaks = np.array([max(magnitude(value), magnitude(other)) for other in others])
        least = np.array([_surely_apart(value, other)[0] for other in others])
        possible = least <= bounds(peaks[:, np.newaxis], tolerance)[:, 0]
    agreeing = arrays.near(first, second, tolerance, scale, peaks)
    whole: NDArray[np.bool_] = np.all(agreeing, axis=1) & possible
    return whole


def _surely_apart(a: Numbers, b: Numbers) -> tuple[float, Furthest]:
    """A lower bound on the difference of two arrays from their stored differences, and the position
    where one lies furthest from the expectation or plain run, relative to the first.

    If one lies 3 from the expectation and the other 1, they differ by at least 2.
    """
    if isinstance(a, Part) and isinstance(b, Part):
        for first, second in ((a.from_expected, b.from_expected), (a.from_plain, b.from_plain)):
            if first is None or second is None:
                continue
            if first.distance == second.distance:
                return 0.0, first
            if first.distance > second.distance:
                return first.distance - second.distance, first
            turned = replace(second, pair=(second.pair[1], second.pair[0]))
            return second.distance - first.distance, turned
    return 0.0, Furthest(0.0, 0)


def worst(a: Value, b: Value) -> str:
    """How `a` differs from `b`, in words: the largest difference and where it is."""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return f"{_kind(a)} against {_kind(b)}"
    shape = shape_of(a)
    if shape != shape_of(b):
        return f"shape {shape} against {shape_of(b)}"
    first, second = aligned(a, b)
    differences = absolute_differences(first, second).reshape(-1)
    index = int(np.argmax(differences))
    # Where elements are lacking, the largest difference may be in one of them.
    least, further = _surely_apart(first, second)
    if least <= differences[index]:
        lacking = isinstance(first, Part) and not first.complete
        place = int(positions(math.prod(shape))[index]) if lacking else index
        further = Furthest(
            float(differences[index]), place, (element(first, index), element(second, index))
        )
    at = _at(further.place, shape)
    if math.isinf(further.distance):
        return f"{further.pair[0]} against {further.pair[1]}{at}"
    return f"max difference {further.distance:.3g}{at}"


def _at(place: int, shape: tuple[int, ...]) -> str:
    """The place of an element in words; nothing for that of an array without dimensions."""
    index = np.unravel_index(place, shape)
    return f" at [{', '.join(str(i) for i in index)}]" if index else ""


def largest_difference(a: Value, b: Value) -> float | None:
    """The largest absolute difference of two arrays; `None` where there are no two of one shape."""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return None
    if shape_of(a) != shape_of(b):
        return None
    return 0.0 if a is b else difference(a, b)


def summary(value: Value) -> str:
    """A value in a few words: shape and first elements."""
    if isinstance(value, Missing):
        return "missing"
    if isinstance(value, Unasked):
        return "zeros, where plain has None"
    return arrays.summary(value, None if value is None else shape_of(value))


def _kind(value: Value) -> str:
    if not isinstance(value, np.ndarray):
        return summary(value)
    return f"an array of shape {shape_of(value)}"


def comparable_gradient(gradient: Value, plain: Value, expected: Value) -> Value:
    """Normalise a gradient for comparison: `None` and zeros are equivalent, except zeros where the
    plain run of the same variant has `None`.

    The result is zeros where `expected` has zeros. `Missing` is equivalent to `None`.
    """
    if not _is_nothing(gradient):
        return gradient
    array, plain_array, expected_array = (
        value if isinstance(value, np.ndarray) else None for value in (gradient, plain, expected)
    )
    if arrays.is_unexpected(array, plain_array):
        return Unasked()
    if array is None and expected_array is not None:
        return expected_array if _is_nothing(expected_array) else gradient
    return None if expected_array is None else array


def _is_nothing(value: Value) -> bool:
    if not isinstance(value, np.ndarray):
        return True
    return arrays.is_none_or_zero(value) and magnitude(value) == 0
