"""Statements of a generated program: operations, tried on values before they are written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from conformance.fuzz.arguments import Arguments, UnfitError
from conformance.fuzz.choices import Choices
from conformance.fuzz.scope import POSITIVE, Declared, Scope
from conformance.language.operations import Operation
from conformance.oracle import tape
from conformance.oracle.tape import Tensor

#: Values beyond this make what follows inaccurate.
_LARGEST = 20.0


@dataclass(frozen=True)
class Made:
    """A statement as it is written, and its results by name."""

    text: str
    results: Mapping[str, Any]


@dataclass
class Statements:
    """Makes the statements of one program from the operations that it may have."""

    choices: Choices
    declared: Declared
    operations: Sequence[Operation]
    allowed: frozenset[str]
    #: The operations that the program is to have and has not yet.
    wanted: list[Operation]
    #: Whether something may happen in a rerun that did not in the forward pass.
    unsteady: bool
    #: Whether the program runs under autocast.
    low: bool
    used: list[Operation] = field(default_factory=list)
    #: The flags, by name, that make an operation raise, and which error.
    raising: dict[str, str] = field(default_factory=dict)
    #: The dtypes of all results.
    dtypes: set[str] = field(default_factory=set)
    _named: int = 0

    def want_lowered(self) -> None:
        """Have the program have an operation that autocast computes in low precision."""
        self.wanted.insert(0, self.choices.one([o for o in self.operations if o.lowered]))

    def name(self) -> str:
        """A name for a result."""
        self._named += 1
        return f"t{self._named}"

    def leaf(self, scope: Scope, integers: bool = False, like: Tensor | None = None) -> str:
        """The name of a new tensor of the case."""
        arguments = self._arguments(self.operations[0], scope, {})
        more: tuple[Any, ...] = ("int32", {"integers": [0, 2]}) if integers else ()
        if like is not None:
            return arguments.leaf(like.shape, like.dtype)
        return arguments.leaf((3, 4), *more)

    def one(self, scope: Scope) -> Made:
        """A statement of any operation that fits."""
        for _ in range(4):
            made = self._of(self._operation(scope), scope)
            if made is not None:
                return made
        return self.plain(scope)

    def of(self, operation: Operation, scope: Scope, *first: str) -> Made:
        """A statement of this operation, with these first arguments; another one where nothing fits."""
        given = dict(zip(operation.tensors, first, strict=False))
        return self._of(operation, scope, given) or self.plain(scope)

    def plain(
        self, scope: Scope, target: str = "", like: Tensor | None = None, of: str = ""
    ) -> Made:
        """A statement of an operation of one tensor, that of this name or one like another one, which
        gives one of the same shape."""
        names = [n for n in scope.tensors() if like is None or n in scope.like(like)]
        names = [n for n in names if n not in scope.read] or names or [self.leaf(scope)]
        names = [of] if of else names
        given = {"x": self.choices.one(names)}
        fitting = [o for o in self.operations if o.elementwise]
        tried = (self._of(o, scope, given, target) for o in (self.choices.one(fitting), *fitting))
        return next(made for made in tried if made is not None)

    def reading(self, scope: Scope, name: str) -> Made | None:
        """A statement that reads an argument that is no tensor, if an operation does."""
        value = scope.values[name]
        standing = [o for o in self.operations if self._may_stand(o, scope)]
        if isinstance(value, bool):
            fitting = [o for o in standing if "flag?" in o.tensors and not (o.raises or o.unlike)]
            return self._of(fitting[0], scope, {"flag?": name}) if fitting else None
        fitting = [o for o in standing if o.takes_number and not o.apart]
        number = isinstance(value, int | float) and fitting
        return self._of(self.choices.one(fitting), scope, {"b": name}) if number else None

    def joining(self, scope: Scope, name: str, last: str) -> Made:
        """A statement that reads a tensor and what the last such statement made, if there is one and it
        has the same dtype."""
        if not last or scope.tensor(last).dtype != scope.tensor(name).dtype:
            return self.plain(scope, of=name)
        fitting = [o for o in self.operations if o.takes_number and not o.apart]
        made = self._of(self.choices.one(fitting), scope, {"a": last, "b": name})
        return made or self.plain(scope, of=last)

    def _operation(self, scope: Scope) -> Operation:
        standing = [o for o in self.operations if self._may_stand(o, scope)]
        wanted = [o for o in self.wanted if o in standing]
        if not wanted or not self.choices.chance(60):
            return self.choices.one(standing)
        first = wanted[0]
        if first.parts and not scope.tensors("complex"):
            makes = (o for o in standing if o.capability == first.capability and not o.parts)
            return next(makes, first)
        return first

    def hook(self, scope: Scope, names: Sequence[str]) -> list[str]:
        """At times, a statement that registers a hook on one of these names, which were made last."""
        written_over = bool(self.used) and bool(self.used[-1].over)
        hooking = [o for o in self.operations if o.hooks and not written_over]
        names = [n for n in names if n in scope.tensors() and n in scope.fresh - scope.read]
        wanted = [o for o in self.wanted if o.hooks]
        if not (hooking and names and self.choices.chance(40 if wanted else 4)):
            return []
        if any(o.takes_gradient for o in self.used):
            return []  # it would be called for that gradient, too
        operation, name = hooking[0], self.choices.one(names)
        self.wanted[:] = [o for o in self.wanted if not o.hooks]
        self.used.append(operation)
        options = self._arguments(operation, scope, {"x": name}).options([scope.values[name]])
        words = [name, *(f"{word}={value!r}" for word, value in options.items())]
        return [f"{name} = {operation.name}({', '.join(words)})"]

    def _may_stand(self, operation: Operation, scope: Scope) -> bool:
        if operation.hooks:  # it stands where `hook` puts it
            return False
        if operation.takes_gradient and any(o.hooks for o in self.used):
            return False
        if scope.words.get("mapped"):
            return operation.elementwise
        if operation.exact and (self.low or scope.words.get("autocast")):
            return False
        if operation.unlike and (operation in self.used or not (self.unsteady and scope.depth)):
            return False  # it does something else in the second call of all that a program has
        return not operation.within or bool(scope.words.get(operation.within))

    def _arguments(
        self,
        operation: Operation,
        scope: Scope,
        given: Mapping[str, str],
        fill: Mapping[str, Any] | None = None,
    ) -> Arguments:
        choices, declared, allowed = self.choices, self.declared, self.allowed
        return Arguments(choices, declared, allowed, operation, scope, given, fill, self.raising)

    def _of(
        self,
        operation: Operation,
        scope: Scope,
        given: Mapping[str, str] = {},
        target: str = "",
    ) -> Made | None:
        """A statement of an operation; `None` where nothing fits it. The second attempt is with new,
        positive tensors."""
        for fill in (None, POSITIVE):
            chosen = self._arguments(operation, scope, given, fill)
            try:
                texts, values = chosen.all()
                options = chosen.options(values)
            except UnfitError:
                return None
            quiet = [
                v if t not in chosen.raises else False for t, v in zip(texts, values, strict=True)
            ]
            results = _tried(operation, quiet, options)
            if results is not None:
                self.raising |= chosen.raises
                return self._made(operation, scope, texts, options, results, target)
        return None

    def _made(
        self,
        operation: Operation,
        scope: Scope,
        texts: Sequence[str],
        options: Mapping[str, Any],
        results: Sequence[Any],
        target: str,
    ) -> Made:
        """A statement, and what it means for those after it."""
        names = [target] if target else [self.name() for _ in results]
        self.used.append(operation)
        if operation in self.wanted:
            self.wanted.remove(operation)
        kinds = {one.dtype for one in results if isinstance(one, Tensor)}
        if any(
            "complex" in dtype for dtype in kinds
        ):  # only their parts reach what is differentiated
            self.wanted.append(self.choices.one([o for o in self.operations if o.parts]))
        for text in texts:
            scope.read |= set(text.strip("[]").split(", "))
        if not operation.view:
            scope.fresh |= set(names)
        if operation.over:
            scope.values.pop(texts[operation.tensors.index(operation.over)], None)
        self.dtypes |= kinds
        words = [*texts, *(f"{name}={value!r}" for name, value in options.items())]
        text = f"{', '.join(names)} = {operation.name}({', '.join(words)})"
        return Made(text, dict(zip(names, results, strict=True)))


def _tried(
    operation: Operation, arguments: Sequence[Any], options: Mapping[str, Any]
) -> Sequence[Any] | None:
    """The results of an operation; `None` where the arguments do not fit it, or where it gives numbers
    that are not finite or large."""
    if "region?" in operation.tensors:
        return (True,)
    try:
        with tape.quiet(), np.errstate(all="ignore"):
            result = getattr(tape, operation.name)(*map(_copied, arguments), **options)
    except (ValueError, TypeError, IndexError, ZeroDivisionError, np.linalg.LinAlgError):
        return None
    results = result if isinstance(result, tuple) else (result,)
    fine = (np.all(np.abs(one.data) <= _LARGEST) for one in tape.tensors_in(results))
    return results if all(fine) else None


def _copied(value: Any) -> Any:
    """A value whose elements may be written over."""
    if isinstance(value, Tensor):
        return Tensor(value.data.copy(), value.dtype, value.node)
    return [_copied(part) for part in value] if isinstance(value, list) else value
