"""One region of a generated program: what it takes, does and gives."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from conformance.fuzz.choices import Choices
from conformance.fuzz.scope import Declared, Scope
from conformance.fuzz.statements import Made, Statements
from conformance.fuzz.trees import leaves, tree
from conformance.fuzz.words import Word
from conformance.language.operations import OPERATIONS

Raw = Any
#: Arguments and results of a region other than tensors.
_VALUES, _LITERALS = (2.0, 3, True, False, None, 0.0, "mode", [1, 2]), (None, 7, 0.5, True)
#: Names of recompute's own options in some framework, which arguments of a region may have, too.
OPTIONS = ("function", "debug", "preserve_rng_state", "policy", "sens", "prevent_cse", "training")
#: Operations that may not stand under autocast.
_EXACT = frozenset(name for name, operation in OPERATIONS.items() if operation.exact)
#: So many arguments and more are many.
_MANY = 9


class Nodes(Protocol):
    """What makes the nodes of a program, a region's body among them: `conformance.fuzz.nodes.Nodes`."""

    choices: Choices
    declared: Declared
    statements: Statements
    words: Sequence[Word]
    containers: Sequence[str]
    wanted: list[Word]
    used: list[Word]
    returned: list[str]

    def has(self, feature: str) -> bool: ...
    def name(self) -> str: ...
    def granularity(self) -> dict[str, Any]: ...
    def body(self, scope: Scope, most: int) -> list[Raw]: ...
    def statement(self, scope: Scope) -> list[Raw]: ...
    def add(self, made: Made, scope: Scope) -> list[Raw]: ...
    def within(self, scope: Scope) -> list[Raw]: ...
    def rise(self, scope: Scope) -> list[Raw]: ...
    def change(self, scope: Scope, names: set[str]) -> list[Raw]: ...
    def leave(self, scope: Scope, inner: Scope) -> None: ...


@dataclass(frozen=True)
class Callee:
    """A region that can be called again: its arguments and results as trees, with values for them, and
    whether it runs under autocast."""

    name: str
    takes: Raw
    kwargs: Mapping[str, Raw]
    gives: Raw
    values: Mapping[str, Any]
    low: bool
    #: The keywords that a call may leave out.
    defaults: frozenset[str]
    #: The names that regions around it take, and those in its body.
    bound: frozenset[str]
    named: frozenset[str]

    def fits(self, scope: Scope) -> bool:
        """Whether what it captures is the same where it would be called, and its operations may stand
        there."""
        unfit = _EXACT if scope.words.get("autocast") else frozenset()
        return self.named.isdisjoint((scope.bound - self.bound) | unfit)


@dataclass
class Region:
    """Makes a region among the nodes of `scope`. One that is only `defined` has names of its own."""

    nodes: Nodes
    scope: Scope
    defined: bool = False
    used: list[Word] = field(default_factory=list)
    words: dict[str, Any] = field(default_factory=dict)
    inner: Scope = field(default_factory=lambda: Scope({}))
    name: str = ""
    #: Names of tensors of the case that it gives, with their values.
    values: dict[str, Any] = field(default_factory=dict)

    def node(self) -> dict[str, Any]:
        """The region as it is written."""
        nodes, scope, chance = self.nodes, self.scope, self.nodes.choices.chance
        self._choose_words()
        single = self.words.get("granularity") == "operation" or not nodes.has("several-operations")
        takes = self._taken(single)
        self.inner = inner = self.inside(takes)
        named = self._named(takes)
        inner.bound |= {*leaves(named)}
        body = nodes.within(inner)
        if not single and chance(12):
            body += nodes.change(inner, set(takes))
        body += nodes.body(inner, 4) if not single else [] if body else nodes.statement(inner)
        if not any(name in inner.values for name in inner.made):
            body += nodes.statement(inner)
        if not single:
            body += self._reading(takes, named)
            body += nodes.rise(inner) if not inner.words.get("mapped") else []
        if self.words.get("mapped") and takes[0] in inner.tensors():
            # What it gives has to come from what it is mapped over.
            body += nodes.add(nodes.statements.plain(inner, of=takes[0]), inner)
        gives = self._gives(takes, single)
        taken = takes if self._flat else self._tree(takes, "nested-inputs")
        name = self.name = nodes.name()
        node: dict[str, Any] = {"define" if self.defined else "recompute": name, "takes": taken}
        node |= {"kwargs": named} if named else {}
        node |= {"gives": gives, "body": body, **self.words}
        if nodes.has("policy") and chance(25):
            node |= {"save": saved} if (saved := self._saved(body)) else {}
        if nodes.has("left") and not self._flat and chance(30):
            node |= {"left": left} if (left := self._left(gives)) else {}
        if not (self.defined or scope.depth or isinstance(gives, str) or "left" in node) and chance(
            10
        ):
            node["returned"] = nodes.statements.name()
            nodes.returned.append(node["returned"])
        changed = [n for n in takes if n not in inner.values]
        if not changed:
            scope.regions[name] = Callee(
                name,
                taken,
                named,
                gives,
                inner.values,
                bool(self.words.get("autocast")),
                self._defaults(named),
                scope.bound,
                _words_of(body) - {*takes, *leaves(named)},
            )
        for name in changed:
            scope.values.pop(name, None)
        self._leave(takes)
        if "returned" in node:  # nothing is written over that is a part of it
            scope.fresh -= set(self.values)
        nodes.used += self.used
        return node

    @property
    def _flat(self) -> bool:
        """Whether it takes and gives tensors by their names alone."""
        return bool(self.words.get("round") or self.words.get("mapped"))

    def _choose_words(self) -> None:
        nodes = self.nodes
        chosen: list[Word] = []
        while nodes.wanted and nodes.choices.chance(70):
            chosen.append(nodes.wanted.pop(0))
        if not any(word.raises for word in chosen):
            chosen += [w for w in nodes.words if not w.raises and nodes.choices.chance(3)]
        unfit = ("round", "mapped")  # and where nothing calls the region, nothing raises
        apart = self.defined or self.scope.apart
        self.used = [
            w for w in chosen if not ((self.defined and w.key in unfit) or (apart and w.raises))
        ]
        self.words = nodes.granularity() | {word.key: word.value for word in self.used}
        if "autocast" in self.words:
            nodes.statements.want_lowered()
        if self.words.get("granularity") == "function":
            del self.words["granularity"]

    def _taken(self, single: bool) -> list[str]:
        """The names of what it takes by position."""
        nodes, scope, choices = self.nodes, self.scope, self.nodes.choices
        tensors = scope.tensors() or [nodes.statements.leaf(scope)]
        if self._flat:
            fitting = [n for n in tensors if scope.tensor(n).shape or not self.words.get("mapped")]
            return fitting[:1] or [nodes.statements.leaf(scope)]
        unread = [n for n in tensors if n not in scope.read]
        if unread and choices.chance(80):
            tensors = [*unread, *tensors[: max(0, 3 - len(unread))]]
        may_be_none = nodes.has("no-tensor-gradient")
        least = 0 if may_be_none and choices.chance(10) else 1
        taken = choices.some(list(dict.fromkeys(tensors)), least, 1 if single else 3)
        if not may_be_none and not any(scope.tensor(n).node for n in taken):
            asking = [n for n in tensors if scope.tensor(n).node]
            taken = [*(asking[:1] or [nodes.statements.leaf(scope)]), *taken]
        if not single and choices.chance(3):
            taken.append(nodes.statements.leaf(scope, integers=True))
        if not single and choices.chance(3):
            like = scope.tensor(next((n for n in taken if n in tensors), tensors[0]))
            more = _MANY + choices.up_to(3) - len(taken)
            taken += [nodes.statements.leaf(scope, like=like) for _ in range(more)]
        if nodes.has("non-tensor-inputs") and choices.chance(10):
            taken.insert(choices.up_to(len(taken)), self._value())
        return list(dict.fromkeys(taken))

    def _value(self, of: Sequence[Any] = _VALUES) -> str:
        """The name of an input that is no tensor."""
        declared, scope, choices = self.nodes.declared, self.scope, self.nodes.choices
        known = [n for n in scope.values if "value" in declared.sections["inputs"].get(n, {})]
        if known and choices.chance(50):
            return choices.one(known)
        name = declared.value(choices.one(of))
        scope.values[name] = declared.values[name]
        return name

    def inside(self, takes: Sequence[str]) -> Scope:
        """What its body can read."""
        nodes, scope = self.nodes, self.scope
        known = {} if self.words.get("mapped") else scope.values
        if not nodes.has("captured-intermediate") or nodes.choices.chance(30):
            known = {n: v for n, v in known.items() if n in nodes.declared.values}
        if nodes.declared.lasting:
            held = nodes.declared.held()
            known = {n: v for n, v in known.items() if n in held}
        if not nodes.has("captured-parameter"):
            parameters = nodes.declared.sections["parameters"]
            known = {n: v for n, v in known.items() if n not in parameters}
        values = {**known, **{n: scope.values[n] for n in takes}}
        fresh = {n for n in takes if n in scope.fresh - scope.read} if not self.defined else set()
        read = set(values) - set(takes)
        regions, depth = dict(scope.regions), scope.depth + 1
        apart = self.defined or scope.apart
        bound = scope.bound.union(takes)
        low = {"autocast": scope.words["autocast"]} if "autocast" in scope.words else {}
        words = low | self.words
        return Scope(values, regions, words, depth, apart, bound, read=read, fresh=fresh)

    def _named(self, takes: list[str]) -> dict[str, Raw]:
        """What it takes by name; taken away from what it takes by position."""
        nodes, signature, choices = self.nodes, self.words.get("signature"), self.nodes.choices
        if not nodes.has("kwargs") or self._flat:
            return {}
        needed = signature in ("keyword-only", "undeclared")
        if not needed and not choices.chance(40 if self.defined else 16):
            return {}
        names: list[str] = []
        if nodes.has("non-tensor-inputs") and signature != "undeclared" and choices.chance(60):
            value = self._value((*(True, False) * 4, *_VALUES))
            names += [value] if value not in takes else []
            self.inner.values[value] = self.scope.values[value]
        if not names or choices.chance(60):
            most = len(takes) if len(takes) >= _MANY and choices.chance(40) else 3
            while len(takes) > 1 and len(names) < most and (not names or choices.chance(80)):
                names.append(takes.pop())
        if not names:
            others = [n for n in self.inner.tensors() if n not in takes]
            names = others[:1] or [nodes.statements.leaf(self.scope)]
        if signature == "undeclared":  # the body reads nothing of it
            names = names[:1]
            self.inner.values.pop(names[0], None)
        named: dict[str, Raw] = {f"k{name}": name for name in names}
        if choices.chance(20):  # a value, if there is one: it may have a default
            named = {choices.one(OPTIONS): names[0]} | {f"k{name}": name for name in names[1:]}
        if nodes.has("nested-inputs") and choices.chance(10):
            word = choices.one([*named])
            named[word] = tree(choices, [named[word]], nodes.containers, nested=True, alone=False)
        return named

    def _defaults(self, named: Mapping[str, Raw]) -> frozenset[str]:
        """The keywords that a call may leave out."""
        declared, signature = self.nodes.declared.sections["inputs"], self.words.get("signature")
        if not self.nodes.has("default") or signature not in (None, "plain", "keyword-only"):
            return frozenset()
        return frozenset(
            word
            for word, name in named.items()
            if isinstance(name, str) and "value" in declared.get(name, {})
        )

    def _reading(self, takes: Sequence[str], named: Mapping[str, Raw]) -> list[Raw]:
        """Statements that read what the body would not read by chance: values other than tensors, and
        each of many arguments."""
        nodes, inner, texts = self.nodes, self.inner, []
        if inner.words.get("mapped"):
            return []
        names = [*takes, *leaves(named)]
        for name in names:
            if name in inner.values and nodes.choices.chance(85):
                made = nodes.statements.reading(inner, name)
                texts += nodes.add(made, inner) if made else []
        if len(names) >= _MANY:
            last = ""
            for name in names:
                if name in inner.tensors() and name not in inner.read:
                    made = nodes.statements.joining(inner, name, last)
                    texts += nodes.add(made, inner)
                    (last,) = made.results
        return texts

    def _gives(self, takes: Sequence[str], single: bool) -> Raw:
        """What it gives. Where it is called on the spot, names are its caller's, too."""
        choices, inner, scope = self.nodes.choices, self.inner, self.scope
        made = inner.made[::-1]
        made = [n for n in made if n in inner.values]
        made = [n for n in made if n not in inner.read] + [n for n in made if n in inner.read]
        chosen = made[:1]
        if not (single or self._flat or choices.chance(55)):
            chosen += choices.some(made[1:], 0, choices.one((*[2] * 8, 12)))
            back = [
                n for n in takes if n in scope.made and n not in scope.read and n in inner.values
            ]
            if self.defined:
                back = [*chosen, *inner.tensors("")]
            if back and choices.chance(70 if self.defined else 15):
                chosen.append(choices.one(back))
        self.values = {n: inner.values[n] for n in chosen if n in inner.values}
        if len(chosen) == 1 and (single or self._flat or not choices.chance(12)):
            return chosen[0]
        parts: list[Raw] = chosen if self.defined else list(dict.fromkeys(chosen))
        if self.nodes.has("non-tensor-outputs") and choices.chance(15):
            parts.insert(choices.up_to(len(parts)), choices.one(_LITERALS))
        return self._tree(parts, "nested-outputs")

    def _left(self, gives: Raw) -> list[str]:
        """Results that it leaves in a list: the last of several that it makes."""
        names = leaves(gives)
        top = gives[1:] if isinstance(gives, list) else []
        made = [
            n for n in top if isinstance(n, str) and n in self.inner.made and names.count(n) == 1
        ]
        return made[-1 - self.nodes.choices.up_to(1) :]

    def _tree(self, parts: Sequence[Raw], feature: str) -> Raw:
        """A list of these, perhaps with containers in it."""
        nodes, alone = self.nodes, feature == "nested-outputs"
        return tree(nodes.choices, parts, nodes.containers, nested=nodes.has(feature), alone=alone)

    def _saved(self, body: Sequence[Raw]) -> list[str]:
        """A policy: names that the body makes, or operations."""
        texts = [text for text in body if isinstance(text, str)]
        targets = [name for text in texts for name in text.partition(" = ")[0].split(", ")]
        operations = [text.partition(" = ")[2].partition("(")[0] for text in texts]
        return self.nodes.choices.some(list(dict.fromkeys([*operations, *targets])), 1, 2)

    def _leave(self, takes: Sequence[str]) -> None:
        """Note, outside of the region, what it has read and made."""
        inner, scope = self.inner, self.scope
        self.nodes.leave(scope, inner)
        scope.read |= {n for n in inner.read if n not in takes}
        new = inner.fresh.issuperset(self.values)
        # A program may write over an argument afterwards: no result of the region is a part of it.
        after = {n for n in takes if new and n in scope.fresh}
        scope.read |= {n for n in takes if n not in after}
        scope.taken |= after
        if not self.defined:
            scope.values.update(self.values)
            scope.made += [n for n in self.values if n not in scope.made]
            scope.fresh |= inner.fresh & set(self.values)


def _words_of(nodes: Sequence[Raw]) -> frozenset[str]:
    """The words in nodes, names of tensors among them."""
    return frozenset(re.findall(r"\w+", json.dumps(nodes)))
