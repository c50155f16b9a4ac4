"""The nodes of a generated program: statements, regions, further calls, loops and sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.fuzz.choices import Choices
from conformance.fuzz.regions import Callee, Region
from conformance.fuzz.scope import Declared, Scope
from conformance.fuzz.statements import Made, Statements
from conformance.fuzz.trees import leaves, renamed, with_new_names
from conformance.fuzz.words import Word
from conformance.language.operations import OPERATIONS, Operation
from conformance.oracle import tape
from conformance.oracle.tape import Tensor

#: The operation that makes another dtype of a tensor.
_CAST = next(o.name for o in OPERATIONS.values() if "dtype" in o.options)
Raw = Any
#: How deep regions are nested.
_DEPTH = 5
#: How often, in percent, a node of the body of a region is one. Few programs are nested deeply.
NESTED = (*[12] * 15, 40)


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
    #: The kinds of containers that arguments and results may be in.
    containers: Sequence[str]
    #: The words that regions have.
    used: list[Word] = field(default_factory=list)
    #: The names for what regions return as a whole, a tuple or a dict.
    returned: list[str] = field(default_factory=list)
    #: How often, in percent, a node of a region's body is a region, where it may be.
    nested: int = NESTED[0]
    #: Operations with an infinite gradient, of which a region is to have one.
    steep: list[Operation] = field(default_factory=list)
    #: The name of what comes from it.
    risen: str = ""
    _regions: int = 0

    def has(self, feature: str) -> bool:
        """Whether a program may have a feature."""
        return feature in self.allowed

    def name(self) -> str:
        """A name for a region."""
        self._regions += 1
        return f"r{self._regions}"

    def granularity(self) -> dict[str, Any]:
        """The word for what is recomputed, where a function cannot be."""
        kinds = [kind for kind in ("function", "module", "operation") if self.has(kind)]
        return {"granularity": kinds[0]} if kinds[:1] != ["function"] else {}

    # -- lists ------------------------------------------------------------------------------------

    def top(self, scope: Scope) -> list[Raw]:
        """The nodes of a program, with one region at least."""
        choices, nodes = self.choices, []
        callable_ = self.has("function") or self.has("module")
        kinds: list[Callable[[Scope], list[Raw]]] = []
        if self.has("single-call") and (callable_ or self.has("operation")):
            kinds += [self.region] * 5
        if self.has("repeated-call") and callable_:
            kinds.append(self.loop)
        if self.has("segment"):
            kinds.append(self.sequence)
        for _ in range(choices.up_to(2)):
            nodes += self.statement(scope)
        for _ in range(1 + choices.one((0, 0, 1, 1, 2))):
            nodes += choices.one(kinds)(scope)
            if scope.regions and self.has("repeated-call") and choices.chance(25):
                nodes += self.again(scope)
            nodes += self.change(scope, scope.taken) if choices.chance(15) else []
            for _ in range(choices.one((0, 0, 1, 2))):
                nodes += self.statement(scope)
        return nodes

    def body(self, scope: Scope, most: int) -> list[Raw]:
        """The nodes of a region, `most` of them at most."""
        nodes: list[Raw] = []
        inside = self.has("nested-regions") and scope.depth < _DEPTH
        inside = inside and not scope.words.get("mapped")
        for _ in range(1 + self.choices.up_to(most - 1)):
            if inside and self.has("single-call") and self.choices.chance(self.nested):
                nodes += self.region(scope)
            elif inside and self.has("repeated-call") and scope.regions and self.choices.chance(6):
                nodes += self.again(scope)
            else:
                nodes += self.statement(scope)
        return nodes

    def statement(self, scope: Scope) -> list[Raw]:
        """A statement."""
        made = self.statements.one(scope)
        return [*self.add(made, scope), *self.statements.hook(scope, [*made.results])]

    def add(self, made: Made, scope: Scope) -> list[Raw]:
        """A statement that is made, whose results can be read from now on."""
        scope.values.update(made.results)
        scope.made += made.results
        return [made.text]

    def within(self, scope: Scope) -> list[Raw]:
        """A statement of the operation that goes by a word of the region, if there is one."""
        texts: list[Raw] = []
        for operation in self.statements.operations:
            if operation.within and scope.words.get(operation.within):
                texts += self.add(self.statements.of(operation, scope), scope)
        return texts

    def rise(self, scope: Scope) -> list[Raw]:
        """An operation whose gradient is infinite, if the program is to have one, of a new tensor; and a
        statement that joins it with what the region made last."""
        made = [n for n in scope.made if n in scope.tensors()]
        if not made or not self.steep:
            return []
        leaf = self.statements.leaf(scope, like=scope.tensor(made[-1]))
        first = self.statements.of(self.steep.pop(), scope, leaf)
        (root,) = first.results
        texts = self.add(first, scope)
        joined = self.statements.joining(scope, root, made[-1])
        (self.risen,) = joined.results
        return [*texts, *self.add(joined, scope)]

    def change(self, scope: Scope, names: set[str]) -> list[Raw]:
        """A statement that writes over one of these names, if there is an operation that does."""
        writing = [o for o in self.statements.operations if o.over]
        names = {n for n in (names & scope.fresh) - scope.read if n in scope.values}
        if not names or not writing:
            return []
        return self.add(self.statements.of(writing[0], scope, min(names)), scope)

    def leave(self, scope: Scope, inner: Scope) -> None:
        """Have what was declared inside be read outside, too."""
        for name, value in self.declared.values.items():
            if name in inner.values:
                scope.values.setdefault(name, value)

    # -- regions and calls ------------------------------------------------------------------------

    def region(self, scope: Scope) -> list[Raw]:
        """A region that is called where it stands, or defined and then called."""
        defined = self.has("repeated-call") and self.choices.chance(12)
        region, raising = Region(self, scope, defined), len(self.statements.raising)
        node = region.node()
        callee = scope.regions.get(region.name)
        nodes: list[Raw] = [node]
        if defined:
            raises = any(w.raises for w in region.used) or len(self.statements.raising) > raising
            nodes += self.again(scope, region.name) if raises or self.choices.chance(85) else []
        else:
            names = [n for n in region.values if n in scope.tensors()]
            nodes += self.statements.hook(scope, names)
            nodes += self.cast_back(scope, names) if region.words.get("autocast") else []
        if callee and self.has("repeated-call") and self.choices.chance(70):
            nodes += self.again(scope, region.name, left_out=80) if callee.defaults else []
            nodes += self.again(scope, region.name, left_out=10) if callee.kwargs else []
        return nodes

    def cast_back(self, scope: Scope, names: Sequence[str]) -> list[Raw]:
        """Statements that cast tensors to the dtype of the case; only what they make can be read."""
        texts: list[Raw] = []
        for name in names:
            new = self.statements.name()
            texts.append(f"{new} = {_CAST}({name}, dtype={self.declared.dtype!r})")
            scope.values[new] = tape.astype(scope.tensor(name), self.declared.dtype)
            del scope.values[name]
            scope.made[:] = [new if n == name else n for n in scope.made]
        return texts

    def again(self, scope: Scope, name: str = "", left_out: int = 50) -> list[Raw]:
        """A further call of a region, with tensors of the same shapes; nothing if there are none. What
        has a default is `left_out` so often, in percent."""
        known = [scope.regions[name]] if name in scope.regions else list(scope.regions.values())
        known = [region for region in known if region.fits(scope)]
        if (name and name not in scope.regions) or not known:
            return []
        region: Callee = self.choices.one(known)
        given: dict[str, str] = {}
        alike = self.choices.chance(30)  # one tensor for all arguments that it fits
        for argument in leaves([region.takes, region.kwargs]):
            value = region.values.get(argument)
            fitting = scope.like(value) if isinstance(value, Tensor) else self.alike(argument)
            if not fitting and argument not in scope.values:
                return []
            if alike:
                fitting = [n for n in fitting if n in given.values()] or fitting
            given[argument] = self.choices.one(fitting) if fitting else argument
        gives, made = with_new_names(region.gives, region.values, self.statements.name)
        scope.values |= made
        scope.made += made
        scope.read |= set(given.values())
        call = {"call": region.name, "takes": renamed(region.takes, given), "gives": gives}
        words = self.choices.some([*region.kwargs], len(region.kwargs), len(region.kwargs))
        may = {w for w in region.defaults if scope.bound.isdisjoint(leaves(region.kwargs[w]))}
        words = [w for w in words if w not in may or not self.choices.chance(left_out)]
        kwargs = {word: renamed(region.kwargs[word], given) for word in words}
        call |= {"kwargs": kwargs} if kwargs else {}
        low = [name for name in made if region.low and name in scope.tensors()]
        return [call, *self.cast_back(scope, low)]

    def alike(self, name: str) -> list[str]:
        """The inputs that are no tensors and of the same type as this one, others at times."""
        raising, values = self.statements.raising, self.declared.values
        told = self.declared.sections["inputs"].get(name, {})
        if "value" not in told or name in raising:
            return []
        known = [n for n, told in self.declared.sections["inputs"].items() if "value" in told]
        same = [n for n in known if type(values[n]) is type(values[name]) and n not in raising]
        others = [n for n in same if values[n] != values[name]]
        if not others and isinstance(values[name], bool):
            others = [self.declared.value(not values[name])]
        return others if others and self.choices.chance(80) else same

    # -- loops and sequences ----------------------------------------------------------------------

    def loop(self, scope: Scope) -> list[Raw]:
        """A region that is called several times, each time on its own result."""
        name, handed = self.name(), self.statements.name()
        start, value = self._start(scope)
        words = self.granularity()
        for word in self.words:
            plain = word.value in (True, False) and word.key not in ("round", "mapped")
            if plain and self.choices.chance(6):
                words |= {word.key: word.value}
        inner = self._handed(scope, handed, value, words)
        body: list[Raw] = []
        if self.has("several-operations"):
            body = [*self.within(inner), *self.body(inner, 3)]
        last = self.statements.plain(inner, like=value)
        body += self.add(last, inner)
        (result,) = last.results
        node = {"define": name, "takes": [handed], "gives": result, "body": body, **words}
        self.leave(scope, inner)
        out = self.statements.name()
        scope.values[out] = value
        scope.made.append(out)
        calls: list[Raw] = [f"{out} = {name}({out})"] * (1 + self.choices.up_to(1))
        if self.choices.chance(40):
            calls = [{"repeat": 1 + self.choices.up_to(2), "body": calls[:1]}]
        return [node, f"{out} = {name}({start})", *calls]

    def sequence(self, scope: Scope) -> list[Raw]:
        """Layers that are divided into segments."""
        handed, layers = self.statements.name(), []
        _, value = self._start(scope)
        first = self.statements.plain(scope, handed, value).text
        for _ in range(1 + self.choices.up_to(3)):
            inner = self._handed(scope, handed, value, {})
            layer = [text for _ in range(self.choices.up_to(2)) for text in self.statement(inner)]
            layer.append(self.statements.plain(inner, handed, value).text)
            layers.append(layer)
            self.leave(scope, inner)
        name = f"{self.name()}_"  # its segments have numbers after it
        node: dict[str, Any] = {"sequence": name, "takes": handed, "layers": layers}
        node["segments"] = 1 + self.choices.up_to(len(layers) - 1)
        if self.has("preserve-rng-off") and self.choices.chance(10):
            node["preserve_rng"] = False
        scope.values[handed] = value
        scope.made.append(handed)
        scope.fresh.add(handed)
        return [first, node]

    def _start(self, scope: Scope) -> tuple[str, Tensor]:
        """A tensor to begin with."""
        name = self.choices.one(scope.tensors() or [self.statements.leaf(scope)])
        return name, scope.tensor(name)

    def _handed(self, scope: Scope, name: str, value: Tensor, words: dict[str, Any]) -> Scope:
        """What a body can read that is handed a tensor by a name of its own."""
        inner = Region(self, scope, words=words).inside([])
        inner.values[name] = value
        return inner
