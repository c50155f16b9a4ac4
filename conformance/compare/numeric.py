"""Values that variants are compared on: which are equal, and how they differ in words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from conformance.judge import arrays
from conformance.judge.arrays import absolute_differences, quantities, wide
from conformance.model.case import Tolerance
from conformance.model.observation import Array, Expected, Run

T = TypeVar("T")


@dataclass(frozen=True)
class Missing:
    """No entry where others have one."""


@dataclass(frozen=True)
class Unasked:
    """A gradient of zeros where the plain run of the same variant has `None`."""


Value = Array | Missing | Unasked | None
#: The check that a value belongs to, and its name in a sentence.
Subject = tuple[str, str]


def partition(
    values: Mapping[str, T], agree: Callable[[T, T], bool]
) -> tuple[tuple[str, ...], ...]:
    """Groups in which everybody agrees with everybody; each joins the first one that it can."""
    groups: list[list[str]] = []
    for name, value in values.items():
        for group in groups:
            if all(agree(value, values[member]) for member in group):
                group.append(name)
                break
        else:
            groups.append([name])
    return tuple(map(tuple, groups))


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
    """Groups of equal values. Most variants agree bit for bit: such values are compared as one."""
    first: dict[object, Value] = {}
    shared = {name: first.setdefault(_bits(value), value) for name, value in values.items()}
    return partition(shared, lambda a, b: a is b or close(a, b, tolerance))


def _bits(value: Value) -> object:
    """A key that is equal only for identical values."""
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
    if isinstance(value, Missing):
        return "missing"
    if isinstance(value, Unasked):
        return "zeros, where plain has None"
    return arrays.summary(value)


def _kind(value: Value) -> str:
    return f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else summary(value)


def comparable_gradient(gradient: Value, plain: Value, expected: Value) -> Value:
    """Normalise a gradient for comparison: `None`, `Missing` and zeros are equivalent, except zeros
    where the plain run of the same variant has `None`. They become zeros where `expected` has zeros.
    """
    if isinstance(gradient, np.ndarray) and np.any(gradient):
        return gradient
    array, plain_array, expected_array = (
        value if isinstance(value, np.ndarray) else None for value in (gradient, plain, expected)
    )
    if arrays.is_unexpected(array, plain_array):
        return Unasked()
    if array is None and expected_array is not None:
        return gradient if np.any(expected_array) else expected_array
    return None if expected_array is None else array
