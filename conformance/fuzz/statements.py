"""Statements of a generated program: an operation, arguments that fit it, and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.fuzz.choices import Choices
from conformance.fuzz.scope import Declared, Scope, regrouped, split_evenly, tried
from conformance.language.operations import Operation, OptionSpec
from conformance.oracle.tape import Shape, Tensor

#: The lengths of axes that are new, all of one tensor alike: JAX and TensorFlow compile each operation
#: for each shape, which takes longer than all the rest.
_LENGTHS = (4, 4, 4, 3, 2)
_SHAPES: tuple[Shape, ...] = (
    (3, 4),
    (4,),
    (2, 3, 4),
    (4, 4),
    (2, 3, 4, 4),
    (1, 4),
    (),
    (0, 4),
    (1,),
)
#: How tensors are filled: of both signs, or positive.
_SIGNED, _POSITIVE = {"normal": 0.5}, {"uniform": [0.5, 1.5]}
#: The shape of most tensors, and how they are filled.
USUAL: tuple[Shape, Mapping[str, Any]] = ((3, 4), _SIGNED)
_NUMBERS = (2.0, 0.5, -1.0, 3)
_FLAGS = (True, False)
_DTYPES = ("float32", "float64", "bfloat16", "float16", "int32")


Raw = Any


@dataclass(frozen=True)
class Made:
    """A statement as it is written, and its results by name."""

    text: str
    results: Mapping[str, Any]


def simplest_first(operations: Sequence[Operation]) -> list[Operation]:
    """Operations in the order in which programs shrink to them."""

    def rank(operation: Operation) -> tuple[bool, int, int]:
        told = operation.capability or operation.random or operation.unlike or operation.within
        return bool(told), len(operation.tensors), len(operation.options)

    return sorted(operations, key=rank)


@dataclass
class Statements:
    """Makes the statements of one program from the operations that it may have."""

    choices: Choices
    declared: Declared
    operations: Sequence[Operation]
    allowed: frozenset[str]
    #: The operations that the program is to have, and has not yet.
    wanted: list[Operation] = field(default_factory=list)
    used: list[Operation] = field(default_factory=list)
    #: Whether something may happen in a rerun that did not in the forward pass.
    unsteady: bool = False
    #: The flags, by name, that make an operation raise.
    raising: dict[str, str] = field(default_factory=dict)
    #: Whether the program runs under autocast.
    low: bool = False
    #: The dtypes of all results.
    dtypes: set[str] = field(default_factory=set)
    _named: int = 0

    def name(self) -> str:
        """A name for a result."""
        self._named += 1
        return f"t{self._named}"

    def one(self, scope: Scope) -> Made:
        """A statement of any operation that fits."""
        for _ in range(4):
            made = self._of(self._operation(scope), scope, (), {})
            if made is not None:
                return made
        return self.plain(scope)

    def of(self, operation: Operation, scope: Scope, *first: str) -> Made:
        """A statement of this operation, with these first arguments; another one where nothing fits."""
        given = dict(zip(operation.tensors, first, strict=False))
        return self._of(operation, scope, (), given) or self.plain(scope)

    def plain(self, scope: Scope, targets: Sequence[str] = (), like: Tensor | None = None) -> Made:
        """A statement of an operation of one tensor that gives one of its shape."""
        names = (
            scope.tensors()
            if like is None
            else [n for n in scope.like(like) if n in scope.tensors()]
        )
        names = [n for n in names if n not in scope.read] or names
        name = self.choices.one(names) if names else self.leaf(scope, *USUAL)
        unary = [o for o in self.operations if _is_plain(o)]
        for operation in (self.choices.one(unary), *unary):
            made = self._of(operation, scope, targets, {operation.tensors[0]: name})
            if made is not None:
                return made
        raise AssertionError("no operation fits")

    def _operation(self, scope: Scope) -> Operation:
        complex_ = scope.tensors("complex")
        waiting = [o for o in self.wanted if self._may_stand(o, scope)]
        if waiting and self.choices.chance(60):
            wanted = waiting[0]
            if wanted.parts and not complex_:
                same = [o for o in self.operations if o.capability == wanted.capability]
                return next((o for o in same if not o.parts), wanted)
            return wanted
        return self.choices.one([o for o in self.operations if self._may_stand(o, scope)])

    def _may_stand(self, operation: Operation, scope: Scope) -> bool:
        if scope.words.get("mapped"):
            return _is_plain(operation)
        if operation.exact and (self.low or scope.words.get("autocast")):
            return False
        if operation.unlike and not (self.unsteady and scope.depth):
            return False
        return not operation.within or bool(scope.words.get(operation.within))

    def _of(
        self, operation: Operation, scope: Scope, targets: Sequence[str], given: Mapping[str, str]
    ) -> Made | None:
        """A statement of an operation; `None` where nothing fits it. The second attempt is with new tensors."""
        for fill in (_SIGNED, _POSITIVE):
            new = fill is _POSITIVE
            chosen = _Arguments(self, operation, scope, dict(given), new, fill)
            arguments = chosen.all()
            if arguments is None:
                return None
            texts, values = arguments
            options = self._options(operation, values)
            if options is None:
                continue
            results = self._results(operation, values, options)
            if results is None:
                continue
            names = [*targets] if targets else [self.name() for _ in results]
            if len(names) != len(results):
                continue
            self._note(operation, scope, texts, names)
            self.raising |= chosen.raising
            self.dtypes |= {one.dtype for one in results if isinstance(one, Tensor)}
            words = [*texts, *(f"{k}={v!r}" for k, v in options.items())]
            text = f"{', '.join(names)} = {operation.name}({', '.join(words)})"
            return Made(text, dict(zip(names, results, strict=True)))
        return None

    def _results(
        self, operation: Operation, values: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        if any(kind in ("region?",) for kind in operation.tensors):
            return (True,)
        if operation.tensors[:1] == ("x",) and isinstance(values[0], float | int):
            return None
        return tried(operation, values, options)

    def _note(
        self, operation: Operation, scope: Scope, texts: Sequence[str], names: Sequence[str]
    ) -> None:
        """Note what has been read, and what may be written over."""
        self.used.append(operation)
        if operation in self.wanted:
            self.wanted.remove(operation)
        for text in texts:
            scope.read |= set(text.strip("[]").split(", "))
        computes = any(any(words) for options in operation.needs.values() for words in options)
        if computes:
            scope.fresh |= set(names)
        if operation.over:
            written = texts[operation.tensors.index(operation.over)]
            scope.values.pop(written, None)

    def _options(self, operation: Operation, values: Sequence[Any]) -> dict[str, Any] | None:
        first = values[0] if values else None
        if isinstance(first, list):
            first = first[0]
        shape = first.shape if isinstance(first, Tensor) else None
        chosen: dict[str, Any] = {}
        for name, spec in operation.options.items():
            if spec.means in ("axis", "parts") and not shape and spec.default is not None:
                return None
            if not spec.required and not self.choices.chance(50):
                continue
            if (spec.beside and spec.beside not in chosen) or spec.instead in chosen:
                continue
            found = self._option(spec, shape, chosen)
            if not found and spec.required:
                return None
            if not found:
                continue
            chosen[name] = self.choices.one(found)
        return chosen

    def _option(
        self, spec: OptionSpec, shape: Shape | None, chosen: Mapping[str, Any]
    ) -> Sequence[Any]:
        """What an option may be."""
        if spec.means == "shape":
            return _SHAPES[:6] if shape is None else regrouped(shape)
        if spec.means:
            axes = range(len(shape or ()))
            if spec.means == "axis":
                return [axis - 1 for axis in axes] if axes else []
            if spec.means == "order":
                return [list(axes)[::-1], [*axes[1:], *axes[:1]]] if axes else []
            return split_evenly(shape[0]) if shape else []
        if spec.type == "dtype":
            return _DTYPES
        if spec.type == "bool":
            return (True,)
        if spec.capability and spec.capability not in self.allowed:
            return (spec.default,) if spec.words else ()
        return spec.words or spec.tried

    def leaf(self, scope: Scope, shape: Shape, fill: Mapping[str, Any], dtype: str = "") -> str:
        """The name of a new tensor of the case, which every list of nodes can read."""
        parameter = self.choices.chance(60) and (
            "captured-parameter" in self.allowed or not scope.depth
        )
        section = "parameters" if parameter and "int" not in dtype else "inputs"
        name = self.declared.tensor(section, shape, fill, dtype, self.choices.chance(8))
        scope.values[name] = self.declared.values[name]
        return name


def _is_plain(operation: Operation) -> bool:
    """Whether an operation takes one tensor and gives one of its shape, treating all elements alike."""
    alike = (
        operation.shape == "shape of x" and len(operation.tensors) == 1 and not operation.options
    )
    told = operation.parts or operation.unlike or operation.within or operation.random
    return (
        alike
        and not operation.capability
        and not told
        and not operation.joint
        and bool(operation.needs)
    )


@dataclass
class _Arguments:
    """Chooses the arguments of one statement."""

    maker: Statements
    operation: Operation
    scope: Scope
    #: Names that are chosen already, by argument.
    given: dict[str, str]
    #: Whether tensors are to be new ones.
    new: bool
    fill: Mapping[str, Any]
    lengths: dict[str, Any] = field(default_factory=dict)
    dtype: str = ""
    number: bool = False
    raising: dict[str, str] = field(default_factory=dict)

    def all(self) -> tuple[list[str], list[Any]] | None:
        """The arguments as they are written, and their values."""
        texts: list[str] = []
        values: list[Any] = []
        for name, pattern in zip(self.operation.tensors, self.operation.patterns, strict=True):
            found = self._one(name, pattern)
            if found is None:
                return None
            text, value = found
            texts.append(text)
            values.append(value)
            if isinstance(value, Tensor):
                self._bind(pattern, value.shape)
                self.dtype = self.dtype or (value.dtype if name != self.operation.whole else "")
        return texts, values

    def _one(self, name: str, pattern: tuple[str, ...] | None) -> tuple[str, Any] | None:
        choices, scope, declared = self.maker.choices, self.scope, self.maker.declared
        if name == "region?":
            known = list(scope.regions)
            return (choices.one(known), None) if known else None
        if name.endswith("?"):
            return self._told(name)
        if name.endswith("..."):
            return self._several()
        if name in self.operation.updates:
            new = declared.tensor("state", self._shape(pattern), {"full": 1.0}, self.dtype)
            return new, declared.values[new]
        if name in self.given:
            chosen = self.given[name]
            return chosen, scope.values.get(chosen, declared.values.get(chosen))
        if self._may_be_number(name) and choices.chance(20):
            self.number = True
            value = choices.one(_NUMBERS)
            return repr(value), value
        fitting = [] if self.new else self._fitting(name, pattern)
        if fitting and choices.chance(90):
            unread = [n for n in fitting if n not in scope.read]
            chosen = choices.one(unread or fitting) if choices.chance(75) else choices.one(fitting)
            return chosen, scope.values[chosen]
        if name == self.operation.parts or name == self.operation.over:
            return None
        if name == self.operation.whole:
            chosen = self.maker.leaf(scope, self._shape(pattern), {"integers": [0, 2]}, "int32")
        else:
            dtype = "float32" if self.operation.exact else ""
            chosen = self.maker.leaf(scope, self._shape(pattern), self.fill, self.dtype or dtype)
        return chosen, scope.values[chosen]

    def _may_be_number(self, name: str) -> bool:
        return (self.operation.takes_number and not self.number) or (
            bool(self.operation.over) and name != self.operation.over
        )

    def _fitting(self, name: str, pattern: tuple[str, ...] | None) -> list[str]:
        """The tensors that can be this argument."""
        kind = "float"
        if name == self.operation.whole:
            kind = "int"
        elif name == self.operation.parts:
            kind = "complex"
        names = [n for n in self.scope.tensors(kind) if self._fits(n, pattern)]
        if name == self.operation.over:
            names = [n for n in names if n in self.scope.fresh - self.scope.read]
            names = [n for n in names if n in self.scope.taken] or names
        return names

    def _fits(self, name: str, pattern: tuple[str, ...] | None) -> bool:
        value = self.scope.tensor(name)
        if self.dtype and value.dtype != self.dtype and "int" not in value.dtype:
            return False
        if self.operation.exact and value.dtype in ("bfloat16", "float16"):
            return False
        if pattern is None:
            return True
        shape, bound = value.shape, dict(self.lengths)
        return _unified(pattern, shape, bound)

    def _bind(self, pattern: tuple[str, ...] | None, shape: Shape) -> None:
        if pattern is not None:
            _unified(pattern, shape, self.lengths)

    def _shape(self, pattern: tuple[str, ...] | None) -> Shape:
        """The shape of a new tensor."""
        choices = self.maker.choices
        if pattern is None:
            tensors = self.scope.tensors()
            return self.scope.tensor(tensors[0]).shape if tensors else choices.one(_SHAPES)
        length = choices.one(_LENGTHS)
        shape: list[int] = []
        for axis in pattern:
            if axis == "...":
                shape += self.lengths.get(axis, (3,))
            else:
                shape.append(self.lengths.setdefault(axis, length))
        return tuple(shape)

    def _told(self, name: str) -> tuple[str, Any] | None:
        """An argument that is no tensor."""
        choices, declared, scope = self.maker.choices, self.maker.declared, self.scope
        if name == "generator?":
            features = {"framework": "generator", "numpy": "numpy-generator"}
            libraries = [name for name, f in features.items() if f in self.maker.allowed]
            if not libraries:
                return None
            library = choices.one(libraries)
            made = declared.generator(library)
            return made, declared.values[made]
        if name == "flag?":
            known = [n for n, value in scope.values.items() if isinstance(value, bool)]
            known = [n for n in known if n not in self.maker.raising and not self.operation.raises]
            if known and choices.chance(70):
                chosen = choices.one(known)
                return chosen, scope.values[chosen]
            raises = bool(self.operation.raises and scope.depth and choices.chance(40))
            made = declared.value(raises or (not self.operation.raises and choices.one(_FLAGS)))
            self.raising |= {made: self.operation.raises} if raises else {}
        else:
            made = declared.value([], "v")
        scope.values[made] = declared.values[made]
        return made, declared.values[made]

    def _several(self) -> tuple[str, Any] | None:
        """A list of tensors of one shape."""
        tensors = self.scope.tensors()
        first = (
            self.maker.choices.one(tensors)
            if tensors
            else self.maker.leaf(self.scope, (3, 4), self.fill)
        )
        alike = [n for n in self.scope.like(self.scope.tensor(first)) if n in tensors]
        names = [
            first,
            *(self.maker.choices.one(alike) for _ in range(1 + self.maker.choices.up_to(1))),
        ]
        return f"[{', '.join(names)}]", [self.scope.tensor(name) for name in names]


def _unified(pattern: tuple[str, ...], shape: Shape, lengths: dict[str, Any]) -> bool:
    """Whether a shape fits a pattern; the lengths of its letters are added."""
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
