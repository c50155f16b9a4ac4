"""Outputs, losses, gradients, parameters: the same numbers in every variant and the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from conformance.compare.grouping import Compared, absence, partition
from conformance.compare.model import EXPECTATION, Agreement, CrossVerdict, Group
from conformance.judge import arrays
from conformance.judge.arrays import absolute_differences, quantities, wide
from conformance.language.capabilities import required_by
from conformance.language.operations import RANDOM
from conformance.model.case import Case, Tolerance
from conformance.model.observation import Array, Expected, Run
from conformance.model.result import Result


@dataclass(frozen=True)
class Missing:
    """No entry where others have one."""


@dataclass(frozen=True)
class Unasked:
    """A gradient of zeros where the plain run of the same variant has `None`."""


Value = Array | Missing | Unasked | None
Subject = tuple[str, str]


def compare_numbers(
    case: Case, results: Mapping[str, Result], tolerance: Tolerance
) -> Iterator[CrossVerdict]:
    """Verdicts on every array of a case.

    Arrays of deterministic cases are held against each other and against the expectation (float64).
    Where a case draws random numbers, generators differ between frameworks: there only variants of
    one framework are compared, and only those whose plain runs drew the same. Where random state is
    not preserved, gradients are those of other draws, and nothing is compared.
    """
    compared = Compared.of(case.id, "value", results, lambda result: absence(result, "value"))
    if not case.uses(RANDOM):
        found = (result.expected for result in compared.present.values())
        expected = next((e for e in found if e is not None), None)
        yield from _compare(compared, tolerance, expected)
        return
    preserved = "preserve-rng-off" not in required_by(case)
    note = "random: compared within each framework only"
    if not preserved:
        note = "random, and random state is not preserved: nothing to compare"
    yield compared.told("values", Agreement.SKIPPED, note)
    if preserved:
        for same in _drew_the_same(compared.present, tolerance):
            yield from _compare(replace(compared.among(same), absent={}), tolerance, None)


def _compare(
    compared: Compared, tolerance: Tolerance, expected: Expected | None
) -> Iterator[CrossVerdict]:
    if len(compared.present) < 2:
        return
    anchor = {} if expected is None else values_of(expected)
    observed = {v: r.observation for v, r in compared.present.items() if r.observation}
    recomputed = {v: values_of(o.recomputed) for v, o in observed.items()}
    plain = {v: values_of(o.plain) for v, o in observed.items()}
    for key in dict.fromkeys(s for values in (anchor, *recomputed.values()) for s in values):
        entries: dict[str, Value] = {EXPECTATION: anchor[key]} if key in anchor else {}
        for v, values in recomputed.items():
            value = values.get(key, Missing())
            if key[0] == "gradient":
                value = comparable_gradient(value, plain[v].get(key), anchor.get(key))
            entries[v] = value
        yield _verdict(replace(compared, check=key[0]), key[1], entries, tolerance)


def _verdict(
    compared: Compared, subject: str, entries: Mapping[str, Value], tolerance: Tolerance
) -> CrossVerdict:
    names = agreeing(entries, tolerance)
    groups = tuple(Group(members, summary(entries[members[0]])) for members in names)
    main = groups[names.index(compared.majority(names))]

    def difference(group: Group) -> str:
        pairs = [(entries[a], entries[b]) for a in group.variants for b in main.members]
        return worst(*next(pair for pair in pairs if not close(*pair, tolerance)))

    wrong = [group for group in groups if group is not main and group.variants]
    return compared.verdict(subject, groups, main, wrong, difference)


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
        yield from (group for group in partition(own, agree) if len(group) > 1)


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
    if a.shape != b.shape:
        return False
    first, second = wide(a).reshape(1, -1), wide(b).reshape(1, -1)
    scale = np.maximum(np.abs(first), np.abs(second))
    return bool(np.all(arrays.near(first, second, tolerance, scale)))


def agreeing(values: Mapping[str, Value], tolerance: Tolerance) -> tuple[tuple[str, ...], ...]:
    """Groups of equal values: the same as `partition` with `close`, but faster, for most variants
    agree bit for bit."""
    identical: dict[object, list[str]] = {}
    for name, value in values.items():
        identical.setdefault(_fingerprint(value), []).append(name)
    distinct = {names[0]: values[names[0]] for names in identical.values()}
    by_first = {names[0]: names for names in identical.values()}
    order = list(values).index
    groups = partition(distinct, lambda a, b: close(a, b, tolerance))
    return tuple(
        tuple(sorted((name for first in group for name in by_first[first]), key=order))
        for group in groups
    )


def _fingerprint(value: Value) -> object:
    """A hashable key that is equal only for identical values."""
    return (value.shape, wide(value).tobytes()) if isinstance(value, np.ndarray) else type(value)


def worst(a: Value, b: Value) -> str:
    """How `a` differs from `b`, in words: the largest difference and where it is."""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return f"{_kind(a)} against {_kind(b)}"
    if a.shape != b.shape:
        return f"shape {a.shape} against {b.shape}"
    differences = absolute_differences(a, b)
    index = np.unravel_index(int(np.argmax(differences)), a.shape)
    at = f" at [{', '.join(map(str, index))}]" if index else ""
    if np.isinf(differences[index]):
        return f"{wide(a)[index]:.6g} against {wide(b)[index]:.6g}{at}"
    return f"max difference {differences[index]:.3g}{at}"


def largest_difference(a: Value, b: Value) -> float | None:
    """The largest absolute difference of two arrays; `None` where there are no two of one shape."""
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray) or a.shape != b.shape:
        return None
    return 0.0 if a is b else float(absolute_differences(a, b).max(initial=0.0))


def summary(value: Value) -> str:
    """A value in a few words: shape and first elements."""
    if isinstance(value, Missing):
        return "missing"
    if isinstance(value, Unasked):
        return "zeros, where plain has None"
    return arrays.summary(value)


def _kind(value: Value) -> str:
    return f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else summary(value)


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
    return not isinstance(value, np.ndarray) or arrays.is_none_or_zero(value)
