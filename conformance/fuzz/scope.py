"""What a generated program can read: tensors by name, with values to try statements on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conformance.fuzz.choices import Choices
from conformance.language.operations import Operation
from conformance.oracle import tape
from conformance.oracle.interpreter import ProgramValue
from conformance.oracle.tape import Shape, Tensor

#: Values beyond this make what follows inaccurate.
_LARGEST = 20.0


def tried(operation: Operation, arguments: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The results of an operation, as a tuple; `None` where the arguments do not fit it, or where it
    gives numbers that are not finite or large."""
    copies = [_copied(argument) for argument in arguments]
    try:
        with tape.quiet(), np.errstate(all="ignore"):
            result = getattr(tape, operation.name)(*copies, **options)
    except (ValueError, TypeError, IndexError, ZeroDivisionError, np.linalg.LinAlgError):
        return None
    results = result if isinstance(result, tuple) else (result,)
    for one in tape.tensors_in(results):
        if not np.all(np.abs(one.data) <= _LARGEST):  # also where it is no number
            return None
    return results


def _copied(value: Any) -> Any:
    """A value whose elements may be written over."""
    if isinstance(value, Tensor):
        return Tensor(value.data.copy(), value.dtype, value.node)
    return [_copied(part) for part in value] if isinstance(value, list) else value


@dataclass
class Scope:
    """The names that a list of nodes can read, with values for them, and the regions that it can call.

    `words` are those of the region around it, and `within` says how many regions are around it. `mapped` is set in a
    region that is called through a map: its operations must treat all rows alike.
    """

    values: dict[str, ProgramValue]
    regions: dict[str, Any] = field(default_factory=dict)
    words: Mapping[str, Any] = field(default_factory=dict)
    depth: int = 0
    #: Names that a statement or region has read: nothing may be written over them.
    read: set[str] = field(default_factory=set)
    #: Names whose results have memory of their own, made in this list of nodes.
    fresh: set[str] = field(default_factory=set)
    #: Names that statements of this list have made, in order.
    made: list[str] = field(default_factory=list)

    def tensors(self, kind: str = "float") -> list[str]:
        """The names of tensors of a kind, the latest first."""
        found = [
            name
            for name, value in self.values.items()
            if isinstance(value, Tensor) and kind in value.dtype
        ]
        return found[::-1]

    def tensor(self, name: str) -> Tensor:
        """The value of a tensor."""
        value = self.values[name]
        assert isinstance(value, Tensor)
        return value

    def like(self, tensor: Tensor) -> list[str]:
        """The names of tensors of the same shape and dtype."""
        return [
            name
            for name in self.tensors("")
            if self.tensor(name).shape == tensor.shape and self.tensor(name).dtype == tensor.dtype
        ]


@dataclass
class Declared:
    """What a case declares: its inputs, parameters and state."""

    choices: Choices
    dtype: str
    sections: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {"inputs": {}, "parameters": {}, "state": {}}
    )
    values: dict[str, ProgramValue] = field(default_factory=dict)

    def tensor(self, section: str, shape: Shape, how: Mapping[str, Any], dtype: str = "") -> str:
        """Declare a tensor that is filled as said; its name."""
        name = self._named({"inputs": "x", "parameters": "w", "state": "s"}[section])
        dtype = dtype or self.dtype
        model: dict[str, Any] = {"shape": list(shape), **how}
        if dtype not in ("float32", "int32"):
            model["dtype"] = dtype
        (kind, numbers), *_ = how.items()
        rng = np.random.default_rng(len(self.values))
        elements: Any = np.full(shape, 1.0)
        if kind == "normal":
            elements = numbers * rng.standard_normal(shape)
        elif kind == "uniform":
            elements = rng.uniform(*numbers, shape)
        elif kind == "integers":
            elements = np.full(shape, numbers[1] - 1)  # what fits the greatest fits all
        asks = section != "state" and "float" in dtype
        if asks and self.choices.chance(8):
            model["gradient"] = asks = False
        self.sections[section][name] = model
        self.values[name] = tape.tensor(elements, dtype, asks)
        return name

    def value(self, value: Any, name: str = "v") -> str:
        """Declare an input that is no tensor; its name."""
        name = self._named(name)
        self.sections["inputs"][name] = {"value": value}
        self.values[name] = value
        return name

    def generator(self, library: str) -> str:
        """Declare a generator; its name."""
        name = self._named("g")
        self.sections["inputs"][name] = {"generator": library, "seed": 3}
        self.values[name] = tape.generator(3)
        return name

    def _named(self, letter: str) -> str:
        number = 1 + sum(name.rstrip("0123456789") == letter for name in self.values)
        return f"{letter}{number}"


def split_evenly(length: int) -> list[int]:
    """Into how many equal parts an axis can be divided."""
    return [n for n in (2, 3) if length and length % n == 0]


def regrouped(shape: Shape) -> list[list[int]]:
    """Shapes with as many elements."""
    size = math.prod(shape)
    found = [[size], [-1] if size else [size], list(shape)[::-1], [1, *shape]]
    found += [[size // n, n] for n in (2, 3) if size and size % n == 0]
    return [list(one) for one in dict.fromkeys(map(tuple, found))]
