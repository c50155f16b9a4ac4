"""What an operation of a generated program is given: arguments that fit it, and options."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.fuzz.choices import Choices
from conformance.fuzz.scope import Declared, Scope
from conformance.language.operations import Operation, OptionSpec
from conformance.oracle.tape import Shape, Tensor

#: The lengths of the axes of a new tensor, all alike, and of those that `...` stands for. There are few:
#: JAX and TensorFlow compile each operation for each shape, which takes longer than all the rest.
_LENGTHS, _LEADING = (4, 4, 4, 3, 2), (3,)
_DRAWN = ((3, 4), (4,), (2, 3, 4), (4, 4))
_NUMBERS = (2.0, 0.5, -1.0, 3)
_DTYPES = ("float32", "float64", "bfloat16", "float16", "int32")
_GENERATORS = {"framework": "generator", "numpy": "numpy-generator"}
Pattern = tuple[str, ...] | None


class UnfitError(Exception):
    """Nothing there is fits the operation."""


@dataclass
class Arguments:
    """Chooses what one statement gives its operation. Methods raise `UnfitError`.

    Tensors are those of the `scope`, or new ones of the case; all of them new where `fill` says how they
    are filled. `given` are arguments that are chosen already.
    """

    choices: Choices
    declared: Declared
    allowed: frozenset[str]
    operation: Operation
    scope: Scope
    given: Mapping[str, str]
    fill: Mapping[str, Any] | None = None
    #: Flags that make an operation raise: those of the program, and those that this statement adds.
    raising: Mapping[str, str] = field(default_factory=dict)
    raises: dict[str, str] = field(default_factory=dict)
    #: The lengths that letters of patterns stand for, and the dtype of the first floating argument.
    _lengths: dict[str, Any] = field(default_factory=dict)
    _dtype: str = ""
    _number: bool = False
    #: The arguments so far, as they are written.
    _chosen: set[str] = field(default_factory=set)

    def all(self) -> tuple[list[str], list[Any]]:
        """The arguments as they are written, and their values."""
        texts: list[str] = []
        values: list[Any] = []
        given = (self.scope.values.get(name) for name in self.given.values())
        self._number = any(isinstance(value, int | float) for value in given)
        for name, pattern in zip(self.operation.tensors, self.operation.patterns, strict=True):
            text, value = self._one(name, pattern)
            texts.append(text)
            values.append(value)
            self._chosen.add(text)
            if isinstance(value, Tensor):
                _unified(pattern, value.shape, self._lengths)
                self._dtype = self._dtype or (value.dtype if "float" in value.dtype else "")
        return texts, values

    def _one(self, name: str, pattern: Pattern) -> tuple[str, Any]:
        choices, scope, operation = self.choices, self.scope, self.operation
        if name.endswith("?") and name not in self.given:
            return self._no_tensor(name)
        if name.endswith("..."):
            first = choices.one(scope.tensors() or [self.leaf((3, 4))])
            alike = [n for n in scope.like(scope.tensor(first)) if n in scope.tensors()]
            names = [first, *(choices.one(alike) for _ in range(1 + choices.up_to(1)))]
            return f"[{', '.join(names)}]", [scope.tensor(name) for name in names]
        if name in self.given:
            chosen = self.given[name]
            return chosen, scope.values.get(chosen, self.declared.values.get(chosen))
        if name in operation.updates:
            new = self.declared.tensor("state", self._shape(pattern), {"full": 1.0}, self._dtype)
            return new, self.declared.values[new]
        beside = operation.takes_number and not self._number
        if (beside or (operation.over and name != operation.over)) and choices.chance(20):
            self._number = True
            value = choices.one(_NUMBERS)
            return repr(value), value
        fitting = [] if self.fill else self._fitting(name, pattern)
        if operation.apart:
            fitting = [n for n in fitting if n not in self._chosen]
        if fitting and choices.chance(90):
            unread = [n for n in fitting if n not in scope.read]
            chosen = choices.one(unread or fitting) if choices.chance(75) else choices.one(fitting)
        elif name in (operation.parts, operation.over):
            raise UnfitError
        elif name in (operation.whole, operation.truths):
            dtype = "int32" if name == operation.whole else "bool"
            chosen = self.leaf(self._shape(pattern), dtype, {"integers": [0, 2]})
        else:
            exact = "float32" if operation.exact else ""
            chosen = self.leaf(self._shape(pattern), self._dtype or exact)
        if operation.takes_gradient and not scope.tensor(chosen).node:
            raise UnfitError
        return chosen, scope.values[chosen]

    def _fitting(self, name: str, pattern: Pattern) -> list[str]:
        """The tensors that can be this argument."""
        operation, scope = self.operation, self.scope
        kinds = {operation.whole: "int", operation.truths: "bool", operation.parts: "complex"}
        kind = kinds.get(name, "float")
        names = [n for n in scope.tensors(kind) if self._fits(scope.tensor(n), pattern)]
        if operation.takes_gradient:
            names = [n for n in names if scope.tensor(n).node]
        if name == operation.over:
            names = [n for n in names if n in scope.fresh - scope.read]
            names = [n for n in names if n in scope.taken] or names
        return names

    def _fits(self, value: Tensor, pattern: Pattern) -> bool:
        if self._dtype and "float" in value.dtype and value.dtype != self._dtype:
            return False
        if self.operation.exact and value.dtype in ("bfloat16", "float16"):
            return False
        return _unified(pattern, value.shape, dict(self._lengths))

    def _shape(self, pattern: Pattern) -> Shape:
        """The shape of a new tensor."""
        if pattern is None:
            tensors = self.scope.tensors()
            return self.scope.tensor(tensors[0]).shape if tensors else _DRAWN[0]
        length = self.choices.one(_LENGTHS)
        shape: list[int] = []
        for axis in pattern:
            leading = axis == "..."
            known = self._lengths.setdefault(axis, _LEADING if leading else length)
            shape += known if leading else [known]
        return tuple(shape)

    def leaf(self, shape: Shape, dtype: str = "", fill: Mapping[str, Any] | None = None) -> str:
        """The name of a new tensor of the case, which can be read from now on."""
        choices, scope = self.choices, self.scope
        captured = "captured-parameter" in self.allowed or not scope.depth
        parameter = choices.chance(60) and captured and "int" not in dtype and dtype != "bool"
        section = "parameters" if parameter else "inputs"
        filled = fill or self.fill or self.declared.fill
        name = self.declared.tensor(section, shape, filled, dtype, choices.chance(8))
        scope.values[name] = self.declared.values[name]
        return name

    def _no_tensor(self, name: str) -> tuple[str, Any]:
        """An argument other than a tensor."""
        choices, scope, declared = self.choices, self.scope, self.declared
        if name == "region?":
            if not scope.regions:
                raise UnfitError
            return choices.one(list(scope.regions)), None
        if name == "generator?":
            libraries = [name for name, f in _GENERATORS.items() if f in self.allowed]
            if not libraries:
                raise UnfitError
            made = declared.generator(choices.one(libraries))
            return made, declared.values[made]
        if name == "flag?":
            known = [n for n, value in scope.values.items() if isinstance(value, bool)]
            known = [n for n in known if n not in self.raising and not self.operation.raises]
            if known and choices.chance(70):
                chosen = choices.one(known)
                return chosen, scope.values[chosen]
            may_raise = bool(self.operation.raises and scope.depth) and not scope.apart
            raises = may_raise and choices.chance(40)
            made = declared.value(raises or (not self.operation.raises and choices.chance(50)))
            self.raises |= {made: self.operation.raises} if raises else {}
        else:
            made = declared.value([])
        scope.values[made] = declared.values[made]
        return made, declared.values[made]

    def options(self, values: Sequence[Any]) -> dict[str, Any]:
        """Options, for arguments of these values."""
        first = values[0] if values else None
        first = first[0] if isinstance(first, list) else first
        shape = first.shape if isinstance(first, Tensor) else None
        chosen: dict[str, Any] = {}
        for name, spec in self.operation.options.items():
            if spec.means in ("axis", "parts") and not shape and spec.default is not None:
                raise UnfitError
            left_out = (spec.beside and spec.beside not in chosen) or spec.instead in chosen
            if not spec.required and (left_out or self.choices.chance(50)):
                continue
            found = self._option(spec, shape)
            if found:
                chosen[name] = self.choices.one(found)
            elif spec.required:
                raise UnfitError
        return chosen

    def _option(self, spec: OptionSpec, shape: Shape | None) -> Sequence[Any]:
        """What an option may be."""
        axes = range(len(shape or ()))
        if spec.means == "shape":
            return _DRAWN if shape is None else _regrouped(shape)
        if spec.means == "wider":
            return [[2, *(shape or ())], [4 if n == 1 else n for n in shape or ()]]
        if spec.means == "axis":
            return [axis - 1 for axis in axes]
        if spec.means == "order":
            return [[*axes][::-1], [*axes[1:], *axes[:1]]] if axes else []
        if spec.means == "parts":
            return [n for n in (2, 3) if shape and shape[0] and shape[0] % n == 0]
        if spec.type == "dtype":
            return [name for name in _DTYPES if name != "bfloat16" or name in self.allowed]
        if spec.type == "bool":
            return (True,)
        if spec.capability and spec.capability not in self.allowed:
            return ()
        return spec.words or spec.tried


def _unified(pattern: Pattern, shape: Shape, lengths: dict[str, Any]) -> bool:
    """Whether a shape fits a pattern; the lengths of its letters are added."""
    if pattern is None:
        return True
    if "..." in pattern:
        before = pattern.index("...")
        after = len(pattern) - before - 1
        if len(shape) < before + after:
            return False
        middle = shape[before : len(shape) - after]
        if lengths.setdefault("...", middle) != middle:
            return False
        pattern = (*pattern[:before], *pattern[before + 1 :])
        shape = (*shape[:before], *shape[len(shape) - after :])
    if len(shape) != len(pattern):
        return False
    return all(lengths.setdefault(axis, n) == n for axis, n in zip(pattern, shape, strict=True))


def _regrouped(shape: Shape) -> list[list[int]]:
    """Shapes with as many elements."""
    size = math.prod(shape)
    found: list[list[int]] = [[size], [*shape][::-1], [1, *shape]]
    if size:
        found += [[-1], *([size // n, n] for n in (2, 3) if size % n == 0)]
    return found
