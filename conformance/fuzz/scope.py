"""What a generated program can read, with values to try statements on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conformance.oracle import tape
from conformance.oracle.interpreter import ProgramValue
from conformance.oracle.tape import Shape, Tensor

#: How tensors are filled: with numbers of both signs, or with positive ones.
SIGNED: Mapping[str, Any] = {"normal": 0.5}
POSITIVE: Mapping[str, Any] = {"uniform": [0.5, 1.5]}
#: Positive numbers behind a zero, where some gradients are infinite.
FROM_ZERO: Mapping[str, Any] = {"arange": [0.0, 0.01]}
_LETTERS = {"inputs": "x", "parameters": "w", "state": "s"}


@dataclass
class Scope:
    """The names that a list of nodes can read, with values for them, and the regions that it can call.

    `words` are those of the region around it, `depth` says how many regions are around it, and `apart`
    whether one of these is only defined, and called elsewhere, if at all.
    """

    values: dict[str, ProgramValue]
    regions: dict[str, Any] = field(default_factory=dict)
    words: Mapping[str, Any] = field(default_factory=dict)
    depth: int = 0
    apart: bool = False
    #: The names that the regions around take.
    bound: frozenset[str] = frozenset()
    #: Names that statements have read: nothing is written over these.
    read: set[str] = field(default_factory=set)
    #: Names that regions have read, and no statement.
    taken: set[str] = field(default_factory=set)
    #: Names of results that have memory of their own.
    fresh: set[str] = field(default_factory=set)
    #: Names that this list has made, in order.
    made: list[str] = field(default_factory=list)

    def tensors(self, kind: str = "float") -> list[str]:
        """The names of tensors of a kind of dtype, the latest first."""
        values = self.values.items()
        return [n for n, v in values if isinstance(v, Tensor) and kind in v.dtype][::-1]

    def tensor(self, name: str) -> Tensor:
        """The value of a tensor."""
        value = self.values[name]
        assert isinstance(value, Tensor)
        return value

    def like(self, tensor: Tensor) -> list[str]:
        """The names of tensors of the same shape and dtype."""
        alike = (tensor.shape, tensor.dtype)
        named = ((name, self.tensor(name)) for name in self.tensors(""))
        return [name for name, value in named if (value.shape, value.dtype) == alike]


@dataclass
class Declared:
    """What a case declares: inputs, parameters and state, as YAML data and as values."""

    dtype: str
    sections: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {section: {} for section in _LETTERS}
    )
    values: dict[str, ProgramValue] = field(default_factory=dict)
    #: Whether regions are made once, so that they read no tensor of a step by closure.
    lasting: bool = False
    #: How tensors are filled unless something else is asked for.
    fill: Mapping[str, Any] = field(default_factory=lambda: SIGNED)

    def tensor(
        self,
        section: str,
        shape: Shape,
        fill: Mapping[str, Any],
        dtype: str = "",
        frozen: bool = False,
    ) -> str:
        """Declare a tensor; its name."""
        dtype = dtype or self.dtype
        floating = "float" in dtype
        if self.lasting and floating and section == "inputs":
            section = "parameters"
        model: dict[str, Any] = {"shape": list(shape), **fill}
        model |= {} if dtype in ("float32", "int32") else {"dtype": dtype}
        model |= {"gradient": False} if frozen and floating else {}
        ((kind, numbers),) = fill.items()
        rng = np.random.default_rng(len(self.values))
        elements: Any = np.full(shape, 1.0)  # of integers [0, 2), what fits the greatest fits all
        if kind == "normal":
            elements = numbers * rng.standard_normal(shape)
        elif kind == "uniform":
            low, high = numbers
            elements = rng.uniform(low, high, shape)
        elif kind == "arange":
            start, step = numbers
            elements = start + step * np.arange(np.prod(shape)).reshape(shape)
        asks = floating and not frozen and section != "state"
        value = tape.tensor(elements, dtype, asks)
        return self._add(section, _LETTERS[section], model, value)

    def value(self, value: Any) -> str:
        """Declare an input other than a tensor; its name."""
        return self._add("inputs", "v", {"value": value}, value)

    def generator(self, library: str) -> str:
        """Declare a generator; its name."""
        return self._add("inputs", "g", {"generator": library, "seed": 3}, tape.generator(3))

    def _add(self, section: str, letter: str, model: Any, value: ProgramValue) -> str:
        name = f"{letter}{1 + sum(n.startswith(letter) for n in self.values)}"
        self.sections[section][name] = model
        self.values[name] = value
        return name

    def asking(self, section: str) -> list[str]:
        """The names of a section's tensors that require a gradient."""
        asks = ((n, self.values[n]) for n in self.sections[section])
        return [n for n, value in asks if isinstance(value, Tensor) and value.node is not None]

    def held(self) -> set[str]:
        """The names of what outlives a step: all but tensors and generators among the inputs."""
        sections = self.sections
        values = {name for name, told in sections["inputs"].items() if "value" in told}
        return {*values, *sections["parameters"], *sections["state"]}
