"""Regions, calls, sequences and loops of a generated program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.fuzz.choices import Choices
from conformance.fuzz.scope import Declared, Scope
from conformance.fuzz.statements import Statements
from conformance.fuzz.words import Word
from conformance.language.operations import OPERATIONS
from conformance.oracle.tape import Tensor

Raw = Any
#: The operation that makes another dtype of a tensor.
CAST = next(o.name for o in OPERATIONS.values() if "dtype" in o.options)
_LITERALS = (None, 7, 0.5, True)


@dataclass(frozen=True)
class Callable_:
    """A region that can be called again: its arguments as trees and by name, and what it gives."""

    name: str
    takes: Raw
    kwargs: Mapping[str, Raw]
    gives: Raw
    values: Mapping[str, Any]


@dataclass
class Nodes:
    """Makes the nodes of one program."""

    choices: Choices
    declared: Declared
    statements: Statements
    allowed: frozenset[str]
    #: The words that a region may have, and those that some region is to have.
    words: Sequence[Word]
    wanted: list[Word]
    used: list[Word] = field(default_factory=list)
    casts: set[str] = field(default_factory=set)
    _regions: int = 0

    def has(self, feature: str) -> bool:
        """Whether a program may have a feature; one that nobody knows of is no obstacle."""
        return feature in self.allowed

    def name(self) -> str:
        """A name for a region."""
        self._regions += 1
        return f"r{self._regions}"

    # -- lists of nodes ---------------------------------------------------------------------------

    def top(self, scope: Scope) -> list[Raw]:
        """The nodes of a program: at least one region."""
        choices, nodes = self.choices, []
        kinds: list[Callable[[Scope], list[Raw]]] = []
        if self.has("single-call") and (
            self.has("function") or self.has("module") or self.has("operation")
        ):
            kinds.append(self.region)
        if self.has("repeated-call") and (self.has("function") or self.has("module")):
            kinds.append(self.loop)
        if self.has("segment"):
            kinds.append(self.sequence)
        weights = (
            [0, 0, 0, 0, *range(len(kinds))] if self.region in kinds else list(range(len(kinds)))
        )
        for _ in range(choices.up_to(2)):
            nodes += self._statement(scope)
        for _ in range(1 + choices.one((0, 0, 1, 1, 2))):
            nodes += kinds[choices.one(weights)](scope)
            if scope.regions and self.has("repeated-call") and choices.chance(25):
                nodes += self.again(scope)
            for _ in range(choices.one((0, 0, 1, 2))):
                nodes += self._statement(scope)
        return nodes

    def _statement(self, scope: Scope) -> list[Raw]:
        made = self.statements.one(scope)
        scope.values.update(made.results)
        scope.made += made.results
        return [made.text]

    def _body(self, scope: Scope, most: int) -> list[Raw]:
        nodes: list[Raw] = []
        inside = self.has("nested-regions") and scope.depth < 3 and not scope.words.get("mapped")
        for _ in range(1 + self.choices.up_to(most - 1)):
            if inside and self.choices.chance(12) and self.has("single-call"):
                nodes += self.region(scope)
            elif inside and self.has("repeated-call") and scope.regions and self.choices.chance(6):
                nodes += self.again(scope)
            else:
                nodes += self._statement(scope)
        return nodes

    def _within(self, scope: Scope) -> list[Raw]:
        """A statement of the operation that goes by a word of the region, if there is one."""
        for operation in self.statements.operations:
            if operation.within and scope.words.get(operation.within):
                made = self.statements.any(operation, scope)
                scope.values.update(made.results)
                scope.made += made.results
                return [made.text]
        return []

    # -- regions ----------------------------------------------------------------------------------

    def region(self, scope: Scope) -> list[Raw]:
        """A region, called where it stands, and what follows of its words."""
        choices, chosen = self.choices, self._words()
        words = {word.key: word.value for word in chosen}
        kinds = [kind for kind in ("function", "module", "operation") if self.has(kind)]
        words.setdefault("granularity", kinds[0])
        single = words["granularity"] == "operation" or not self.has("several-operations")
        if words["granularity"] == "function":
            del words["granularity"]
        takes = self._taken(scope, words, single)
        inner = self._inside(scope, takes, words)
        named = self._kwargs(takes, inner, words)
        if single:
            body = self._statement(inner)
        else:
            body = [*self._within(inner), *self._body(inner, 4)]
        node: dict[str, Any] = {"recompute": self.name()}
        back = [n for n in takes if n in scope.made and n not in scope.read]
        gives, values = self._gives(inner, back, words, single)
        flat = words.get("round") or words.get("mapped")
        node["takes"] = takes if flat else self._tree(takes, "nested-inputs")
        if named:
            node["kwargs"] = named
        node["gives"] = gives
        node["body"] = body
        if self.has("policy") and choices.chance(25):
            node["save"] = self._saved(body, inner)
        node |= {key: value for key, value in words.items() if key != "save" or "save" not in node}
        if not node.get("save", True):
            del node["save"]
        self._end(scope, inner, values)
        function = Callable_(
            node["recompute"], node["takes"], node.get("kwargs", {}), gives, values | inner.values
        )
        scope.regions[function.name] = function
        self.used += chosen
        return [node, *self._cast_back(scope, values, words)]

    def _words(self) -> list[Word]:
        """The words of a new region."""
        chosen: list[Word] = []
        while self.wanted and self.choices.chance(70):
            chosen.append(self.wanted.pop(0))
        if any(word.raises for word in chosen):
            return chosen
        for word in self.words:
            if (
                self.choices.chance(4)
                and not word.raises
                and word.key not in {w.key for w in chosen}
            ):
                chosen.append(word)
        return chosen

    def _taken(self, scope: Scope, words: Mapping[str, Any], single: bool) -> list[str]:
        """The names of what a region takes by position."""
        choices, tensors = self.choices, scope.tensors()
        if not tensors:
            self.statements.leaf(scope, (3, 4), {"normal": 0.5})
            tensors = scope.tensors()
        if words.get("mapped"):
            first = [n for n in tensors if scope.tensor(n).shape]
            return first[:1] or [self.statements.leaf(scope, (3, 4), {"normal": 0.5})]
        least = 0 if self.has("no-tensor-gradient") and choices.chance(10) else 1
        most = 1 if words.get("round") or single else 3
        unread = [n for n in tensors if n not in scope.read]
        if unread and choices.chance(60):
            tensors = [*unread, *tensors[: 3 - len(unread)]]
        taken = choices.some(list(dict.fromkeys(tensors)), least, most)
        if words.get("round"):
            return taken or tensors[:1]
        if not self.has("no-tensor-gradient") and not any(scope.tensor(n).node for n in taken):
            asking = [n for n in tensors if scope.tensor(n).node]
            taken = [
                *(asking[:1] or [self.statements.leaf(scope, (3, 4), {"normal": 0.5})]),
                *taken,
            ]
        if self.has("non-tensor-inputs") and not words.get("mapped") and choices.chance(10):
            values = [n for n, v in scope.values.items() if n.startswith("v")]
            if not values or choices.chance(50):
                new = self.declared.value(choices.one((2.0, 3, True, None, "mode", [1, 2])))
                scope.values[new] = self.declared.values[new]
                values = [new]
            taken.append(choices.one(values))
        return list(dict.fromkeys(taken))

    def _inside(self, scope: Scope, takes: Sequence[str], words: Mapping[str, Any]) -> Scope:
        """What the body of a region can read."""
        known = {} if words.get("mapped") else scope.values
        if not self.has("captured-intermediate") or self.choices.chance(30):
            known = {n: v for n, v in known.items() if n in self.declared.values}
        if not self.has("captured-parameter"):
            parameters = self.declared.sections["parameters"]
            known = {n: v for n, v in known.items() if n not in parameters}
        values = {**known, **{n: scope.values[n] for n in takes}}
        read = set(values) - set(takes)
        return Scope(values, dict(scope.regions), words, scope.depth + 1, read)

    def _kwargs(self, takes: list[str], inner: Scope, words: Mapping[str, Any]) -> dict[str, Raw]:
        """What a region takes by name; taken away from what it takes by position."""
        needed = words.get("signature") in ("keyword-only", "undeclared")
        if not self.has("kwargs") or words.get("mapped") or words.get("round"):
            return {}
        if not needed and not self.choices.chance(8):
            return {}
        if len(takes) < 2:
            others = [n for n in inner.tensors() if n not in takes]
            name = others[0] if others else self.statements.leaf(inner, (3, 4), {"normal": 0.5})
        else:
            name = takes.pop()
        if words.get("signature") == "undeclared":
            inner.values.pop(name, None)
        return {f"k{name}": name}

    def _gives(
        self, inner: Scope, back: Sequence[str], words: Mapping[str, Any], single: bool
    ) -> tuple[Raw, dict[str, Any]]:
        """What a region gives, and the values of what its call makes."""
        choices = self.choices
        made = inner.made[::-1]
        made = [n for n in made if n not in inner.read] + [n for n in made if n in inner.read]
        if single or words.get("round") or choices.chance(55):
            chosen = made[:1]
        else:
            chosen = [*made[:1], *choices.some(made[1:], 0, 2)]
            if choices.chance(10):
                chosen += back[:1]
        chosen = list(dict.fromkeys(chosen))
        values = {name: inner.values[name] for name in chosen if name in inner.values}
        alone = single or words.get("round") or words.get("mapped")
        if len(chosen) == 1 and (alone or not choices.chance(15)):
            return chosen[0], values
        parts: list[Raw] = list(chosen)
        if self.has("non-tensor-outputs") and not words.get("mapped") and choices.chance(15):
            parts.insert(choices.up_to(len(parts)), choices.one(_LITERALS))
        return self._tree(parts, "nested-outputs"), values

    def _tree(self, parts: Sequence[Raw], feature: str) -> Raw:
        """A list of these, perhaps with containers in it."""
        choices = self.choices
        tree = list(parts)
        if not self.has(feature) or not choices.chance(20) or not tree:
            return tree
        cut = choices.up_to(len(tree) - 1)
        inside: Raw = tree[cut:]
        if choices.chance(50):
            inside = {f"k{i}": part for i, part in enumerate(inside)}
        return [*tree[:cut], inside]

    def _saved(self, body: Sequence[Raw], inner: Scope) -> list[str]:
        """A policy: names that the body makes, or operations."""
        texts = [text for text in body if isinstance(text, str)]
        made = [name for name in inner.made if any(text.startswith(name) for text in texts)]
        operations = [text.partition(" = ")[2].partition("(")[0] for text in texts]
        return self.choices.some(list(dict.fromkeys([*operations, *made])), 1, 2)

    def _cast_back(
        self, scope: Scope, values: Mapping[str, Any], words: Mapping[str, Any]
    ) -> list[Raw]:
        """Statements that make floats of the usual dtype of what a region under autocast gives."""
        if not words.get("autocast"):
            return []
        return self.cast_back(scope, [n for n in values if n in scope.tensors()])

    def cast_back(self, scope: Scope, names: Sequence[str]) -> list[Raw]:
        """Statements that cast tensors to the dtype of the case; only what they make can be read."""
        texts: list[Raw] = []
        for name in names:
            new = self.statements.name()
            texts.append(f"{new} = {CAST}({name}, dtype={self.declared.dtype!r})")
            scope.values[new] = scope.values.pop(name)
            scope.made[:] = [new if n == name else n for n in scope.made]
        return texts

    def _end(self, scope: Scope, inner: Scope, values: Mapping[str, Any]) -> None:
        """Note what a region has made and declared."""
        known = self.declared.values
        for name in known:
            if name in inner.values:
                scope.values.setdefault(name, known[name])
        scope.read |= inner.read
        scope.values.update(values)
        scope.made += [name for name in values if name not in scope.made]

    # -- calls, loops, sequences --------------------------------------------------------------------

    def again(self, scope: Scope) -> list[Raw]:
        """A further call of a region with other tensors of the same shapes."""
        function: Callable_ = self.choices.one(list(scope.regions.values()))
        given: dict[str, str] = {}
        for name in _leaves([function.takes, function.kwargs]):
            value = function.values.get(name)
            if value is None and name not in scope.values:
                return []
            fitting = scope.like(value) if isinstance(value, Tensor) else []
            if not fitting and name not in scope.values:
                return []
            given[name] = self.choices.one(fitting) if fitting else name
        made = {name: self.statements.name() for name in _leaves(function.gives)}
        scope.values |= {
            new: function.values[old] for old, new in made.items() if old in function.values
        }
        scope.made += list(made.values())
        scope.read |= set(given.values())
        call = {
            "call": function.name,
            "takes": _renamed(function.takes, given),
            "gives": _renamed(function.gives, made),
        }
        if function.kwargs:
            call["kwargs"] = _renamed(dict(function.kwargs), given)
        return [call]

    def loop(self, scope: Scope) -> list[Raw]:
        """A region that is called several times, each time on its own result."""
        name, chosen = (
            self.name(),
            [w for w in self._words() if w.key not in ("round", "mapped") and not w.raises],
        )
        words = {
            word.key: word.value for word in chosen if word.key not in ("signature", "autocast")
        }
        start = self.choices.one(
            scope.tensors() or [self.statements.leaf(scope, (3, 4), {"normal": 0.5})]
        )
        handed, value = f"h{name}", scope.values[start]
        assert isinstance(value, Tensor)
        inner = self._inside(scope, [start], words)
        inner.values.pop(start, None)
        inner.values[handed] = value
        single = not self.has("several-operations")
        body: list[Raw] = [] if single else [*self._within(inner), *self._body(inner, 3)]
        last = self.statements.plain(inner, like=value)
        body.append(last.text)
        (result,) = last.results
        node: dict[str, Any] = {
            "define": name,
            "takes": [handed],
            "gives": result,
            "body": body,
            **words,
        }
        out = self.statements.name()
        self._end(scope, inner, {out: value})
        self.used += [word for word in chosen if word.key in words]
        first = f"{out} = {name}({start})"
        times = 1 + self.choices.up_to(2)
        return [node, first, {"repeat": times, "body": [f"{out} = {name}({out})"]}]

    def sequence(self, scope: Scope) -> list[Raw]:
        """Layers that are divided into segments."""
        name = self.name()
        start = self.choices.one(
            scope.tensors() or [self.statements.leaf(scope, (3, 4), {"normal": 0.5})]
        )
        value = scope.values[start]
        assert isinstance(value, Tensor)
        handed = self.statements.name()
        first = self.statements.plain(scope, (handed,), like=value).text
        layers: list[Raw] = []
        for _ in range(1 + self.choices.up_to(3)):
            inner = self._inside(scope, [start], {})
            inner.values.pop(start, None)
            inner.values[handed] = value
            layer = [text for _ in range(self.choices.up_to(2)) for text in self._statement(inner)]
            layer.append(self.statements.plain(inner, (handed,), like=value).text)
            layers.append(layer)
            self._end(scope, inner, {})
        node = {
            "sequence": name,
            "segments": 1 + self.choices.up_to(len(layers) - 1),
            "takes": handed,
            "layers": layers,
        }
        if self.has("preserve-rng-off") and self.choices.chance(10):
            node["preserve_rng"] = False
        self._end(scope, inner, {handed: value})
        return [first, node]


def _leaves(tree: Raw) -> list[str]:
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list | tuple):
        return [name for part in tree for name in _leaves(part)]
    return [tree] if isinstance(tree, str) else []


def _renamed(tree: Raw, names: Mapping[str, str]) -> Raw:
    if isinstance(tree, dict):
        return {key: _renamed(part, names) for key, part in tree.items()}
    if isinstance(tree, list | tuple):
        return [_renamed(part, names) for part in tree]
    return names.get(tree, tree) if isinstance(tree, str) else tree
