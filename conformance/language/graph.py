"""Gradients of a program whose regions are each one node of the graph, as the text of a case shows.

So are regions in frameworks that make recompute of a function with a gradient of its own: forward runs
without a graph, and backward runs the region again, with a graph, and goes back through that by a
backward pass of its own. Such a node is between the tensors that are arguments by themselves, by
position or by name, and those that are results by themselves, at the top level. Tensors in containers,
and what the region reads by closure, are no part of it: the pass inside goes on into the graph that
they come from.

`Run` goes through the graph with such regions or with regions called directly, with numbers in
place of derivatives. Where the numbers of the two differ, gradients do.
"""

from __future__ import annotations

import itertools
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from conformance.language.flow import redrawing, without_elements
from conformance.language.graph_nodes import (
    Called,
    Names,
    Node,
    Tensor,
    added,
    mixed,
    through,
)
from conformance.language.operations import (
    BOOLS,
    CASTS,
    CENTRED,
    OPERATIONS,
    OTHERS,
    SAVED,
)
from conformance.model.binding import bind, build
from conformance.model.case import (
    Again,
    Array,
    Case,
    Loss,
    Ref,
    Region,
    Statement,
    Value,
    flat,
    leaves,
)
from conformance.model.case import Node as CaseNode
from conformance.model.containers import Listed, Named, Object, alike


class NodeError(Exception):
    """What a backward pass raises, in a word: `detached`, `detached-saved`, `freed`, `hook`, `moved`,
    `refused`, `no-result`, `no-call`; or `endless` where it does not come to its end."""


@dataclass
class Run:
    """A forward pass, and the backward passes over its graph. Raises `NodeError` where the program takes
    a gradient of what requires none.

    `opaque`: regions are nodes; else they are called directly. What they leave in a list (`left`) has
    no graph there if they are nodes, nor unless `lasting`, but for what the region only gives back.
    `entered` counts how often each call of a region, by its moment, has run in backward. `flags` has, by
    the moments of statements, what tensors have answered to `asks_gradient`; `otherwise` says that they
    answered otherwise in a rerun, `draws` that a rerun draws from another generator than the framework's
    global one. With `pops`, a module runs again as it was called in the last of its calls that has not
    run again, be it another one.
    """

    case: Case
    opaque: bool
    lasting: bool = True
    entered_by_all: bool = False
    pops: bool = False
    names: Names = field(default_factory=dict)
    entered: Counter[int] = field(default_factory=Counter)
    #: Whether a region detaches what it captures and returns, since no argument requires a gradient.
    detaches: bool = False
    #: Whether a region returns an input so that the graph begins anew (`entered_by_all`).
    renews: bool = False
    #: By the moment of a call, the name of its region, and the moments of the calls around it and
    #: its own.
    calls: dict[int, str] = field(default_factory=dict)
    chains: dict[int, tuple[int, ...]] = field(default_factory=dict)
    flags: dict[int, list[bool | str]] = field(default_factory=dict)
    otherwise: bool = False
    draws: bool = False
    #: Whether a region that runs again gives no gradient to an argument that a statement has made.
    nothing: bool = False
    #: The calls of each module that have not run again, with the names that they can read.
    _waiting: defaultdict[str, list[Called]] = field(default_factory=lambda: defaultdict(list))
    _chain: list[int] = field(default_factory=list)
    _moment: int = 0
    _made: int = 0
    _recording: bool = True
    _back: bool = False
    #: What a statement gave back as it was, where the result has a node of its own: by the result.
    _same: dict[Tensor, Tensor] = field(default_factory=dict)
    #: The only tensors whose gradients are wanted, by where their gradients come to; none for all.
    _only: dict[Tensor | tuple[Node, int], Tensor] = field(default_factory=dict)
    #: The regions that run again now, one inside of the other.
    _running: Counter[Node] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._regions = {region.name: region for region in self.case.regions()}
        self._redrawing = redrawing(self.case)
        self._higher = self.entered_by_all and self.case.procedure.order > 1
        for value in (*self.case.inputs, *self.case.parameters, *self.case.state):
            if isinstance(value, Array):
                floating = value.dtype.startswith(("float", "bfloat", "complex"))
                name = zlib.crc32(value.name.encode())
                tensor = Tensor(value.gradient, floating, name, value.dtype)
                tensor.void = 0 in value.shape
                self.names[value.name] = tensor
            else:  # another value, another number
                self.names[value.name] = repr(value.value) if isinstance(value, Value) else None
        self.given = dict(self.names)
        self._parameters = [self.names[p.name] for p in self.case.parameters if p.gradient]
        arrays = (*self.case.parameters, *self.case.state)
        self._frozen = [self.names[array.name] for array in arrays if not array.gradient]
        #: The tensors whose gradients the program could ask for.
        tensors = {n: t for n, t in self.names.items() if isinstance(t, Tensor)}
        self.asking = {name: tensor for name, tensor in tensors.items() if tensor.asks}
        if self.case.procedure.after == "inference":
            self._recording = False
            self._run(self.case.program, dict(self.names))
            self._recording, self._moment = True, 0
        self._run(self.case.program, self.names)

    # -- forward --------------------------------------------------------------------------------------

    def _run(self, nodes: Iterable[CaseNode], names: Names) -> None:
        for node in flat(nodes):
            self._moment += 1
            if isinstance(node, Statement):
                self._statement(node, names)
            else:
                region = node if isinstance(node, Region) else self._regions[node.region]
                self._regions[region.name] = region
                if isinstance(node, Again) or node.called:
                    self._call(region, node, names)

    def _statement(self, statement: Statement, names: Names) -> None:
        operation = OPERATIONS[statement.op]
        if self._back and statement.op in OTHERS:
            self.draws |= self.calls[self._chain[-1]] not in self._redrawing
        named = {
            name.removesuffix("..."): _tensors(argument, names)
            for name, argument in zip(operation.tensors, statement.arguments, strict=True)
        }
        every = [tensor for tensors in named.values() for tensor in tensors]
        raises = operation.raises or statement.op == "raise_in_rerun"
        flags = [] if raises else [names.get(name) for name in statement.names()]
        alike = self._alike([flag for flag in flags if isinstance(flag, bool | str)])
        centred = ("x",) if statement.op in CENTRED else ()
        values = {
            name: [(name in centred and t.before) or t.value for t in tensors]
            for name, tensors in named.items()
        }
        value = alike if operation.random else mixed(alike, *itertools.chain(*values.values()))
        values |= {"out": [value], "mask": [value]}
        given = [t for name in operation.needs for t in named.get(name, ())]
        reads = [
            mixed(alike, *(v for word in sorted(needs[0]) for v in values.get(word, ())))
            for name, needs in operation.needs.items()
            for _ in named.get(name, ())
        ]
        if _is_its_argument(statement, every, self.entered_by_all):
            same = every[0]
            if same.asks and not self.opaque:  # a gradient passes through it, as through any other
                back = same.alias(True, same.view)
                self._same[back] = self._same.get(same, same)
                same = back
                self._record(self._node(every, [0], 1, False, statement.op), [same])
            names.update(dict.fromkeys(statement.targets, same))
            return
        if operation.takes_gradient and not (self._recording and every[0].requires):
            raise NodeError("detached")
        first = next((t for t in every if t.floating), every[0] if every else None)
        dtype = str(statement.options.get("dtype", first.dtype if first else ""))
        floating = "float" in str(statement.options.get("dtype", "float")) and (
            not every or any(t.floating for t in every)
        )
        asks = self._recording and floating and any(t.asks for t in given)
        strided = operation.view and any(t.strided for t in every)
        copied = strided and statement.op == "reshape"
        view = operation.view and statement.op not in (*CASTS, "raise_if") and not copied
        void = without_elements(statement, (tensor.void for tensor in every))
        base = next(iter(given), None) if view and not self._recording else None
        made = [
            Tensor(asks, floating, mixed(value, n), dtype, view, void, base=base)
            for n, _ in enumerate(statement.targets)
        ]
        for tensor in made:
            tensor.strided = view and (strided or statement.op != "reshape")
        if asks:
            words = _saved(statement, named)
            kept = [t for word in words for t in named.get(word, ()) if t.made]
            node = self._node(given, reads, len(made), bool(words), statement.op, kept)
            node.void = void
            self._record(node, made)
        if operation.hooks and every[0].asks and every[0].made:
            node, place = every[0].made
            node.hooked.add(place)
        if statement.op == "add_in_place":  # the result is the argument itself
            same = every[0]
            if self._recording:
                same.requires, same.made = made[0].asks, made[0].made
            same.before = (same.before or same.value) if len(every) == 1 else 0
            same.value, made = made[0].value, [same]
        told: object = every[0].asks if statement.op == "asks_gradient" else None
        boolean = statement.op in BOOLS
        names.update(
            (t, told if boolean else m) for t, m in zip(statement.targets, made, strict=True)
        )

    def _alike(self, flags: list[bool | str]) -> int:
        """A number for what a statement does at this moment, with these flags and values."""
        self.otherwise |= self._back and self.flags.get(self._moment) != flags
        if not self._back:
            self.flags[self._moment] = flags
        return mixed(self._moment, *flags)

    def _node(
        self,
        given: Sequence[Tensor],
        reads: Sequence[int],
        results: int,
        saves: bool,
        operation: str,
        kept: Sequence[Tensor] = (),
    ) -> Node:
        self._made += 1
        before = tuple(tensor.made for tensor in given)
        chain = tuple(self._chain)
        start = (self._made, self._moment, tuple(given), tuple(reads), before)
        return Node(*start, results, saves, tuple(kept), chain, operation)

    def _record(self, node: Node, made: Iterable[Tensor]) -> None:
        for place, tensor in enumerate(made):
            if tensor.floating and not (self.entered_by_all and tensor in self._frozen):
                tensor.made = (node, place)

    def _call(self, region: Region, node: Region | Again, names: Names) -> None:
        self.entered[self._moment] += self._back
        self.calls[self._moment] = region.name
        inner = _given(region, node, names)
        if not self.opaque:
            left = () if self.lasting else region.left
            before = set(map(id, inner.values())) if left else ()
            self._body(region, inner)
            for name in left:
                inner[name] = self._left(inner[name], before)
            self._give(node, build(region.gives, inner), names)
            return
        given = self._entries(region, node, names)
        entry = self._node(given, (), 0, bool(given), "")
        recording, self._recording = self._recording, False
        asks = recording and any(t.asks for t in (*given, *self._in_dicts(node, names)))
        self._body(region, inner)
        self._recording = recording
        outcome = build(region.gives, inner)
        top = self._results(region, inner)
        if recording and self.entered_by_all and self._renewed(region, node, names, inner):
            asks = False
        made = [self._result(tensor, given, asks and tensor.floating) for tensor in top]
        called = (region, node, dict(names))
        if recording and region.granularity == "module":
            self._waiting[region.name].append(called)
        if asks:
            entry.results, entry.call = len(top), called
            entry.kept = tuple(tensor for tensor in given if tensor.made)
            self._record(entry, made)
        results = dict(zip(map(id, top), made, strict=True))
        self._give(node, _replaced(outcome, results, nested=self.entered_by_all), names)

    def _left(self, value: object, before: Collection[int]) -> object:
        """What a region leaves in a list, without a graph unless it was there `before`, by its id."""
        if not isinstance(value, Tensor) or id(self._same.get(value, value)) in before:
            return value
        return value.alias(False, value.view)

    def _entries(self, region: Region, node: Region | Again, names: Names) -> list[Tensor]:
        """The tensors that are arguments of a region's node."""
        trees = (*node.takes, *(node.kwargs[key] for key in region.kwargs))
        given = [t for tree in trees if isinstance(tree, Ref) for t in _tensors(tree, names)]
        captured = map(names.get, self._captured(region) if self.entered_by_all else ())
        return given + [t for t in captured if isinstance(t, Tensor) and t in self._parameters]

    def _in_dicts(self, node: Region | Again, names: Names) -> list[Tensor]:
        """The tensors in dicts that go into a region's node, if all does. They get no gradient."""
        if not self.entered_by_all:
            return []
        trees = [t for t in (*node.takes, *node.kwargs.values()) if isinstance(t, dict)]
        parts = (part for t in trees for part in _parts(build(t, names), objects=False))
        return [part for part in parts if isinstance(part, Tensor)]

    def _captured(self, region: Region) -> dict[str, None]:
        """The names that a region reads by closure, and those that the regions which it calls do."""
        names = dict.fromkeys(region.captured())
        for node in flat(region.body):
            if not isinstance(node, Statement):
                names |= self._captured(
                    node if isinstance(node, Region) else self._regions[node.region]
                )
        return names

    def _renewed(
        self, region: Region, node: Region | Again, names: Names, inner: Names
    ) -> set[Tensor]:
        """The inputs that a region returns as they are, but for its own arguments at the top level. They
        begin the graph anew, and the region has no node in it. Raises `NodeError` for parameters, and in
        a region that runs again for inputs of the program, if their gradients are asked for."""
        trees = (*node.takes, *node.kwargs.values())
        given = {t for tree in trees if isinstance(tree, Ref) for t in _tensors(tree, names)}
        value = build(region.returns, inner)
        if isinstance(value, dict):
            value = tuple(value.values())
        direct = value if isinstance(value, tuple) else (value,)
        others = {t for t in given if any(t is part for part in direct)}
        found = {t for t in self._results(region, inner) if t.requires and not t.made} - others
        kind, wrt = self.case.procedure.kind, self.case.wrt
        sources = [
            t for n, t in self.asking.items() if n in wrt or kind not in ("part", "functional")
        ]
        back = self.case.loss is not None and kind != "jvp"  # else nothing goes through the graph
        if back and any(t in found and (self._back or t in self._parameters) for t in sources):
            raise NodeError("parameter")
        for tensor in found:
            tensor.since = self._made
        self.renews |= bool(found)
        return found

    def _results(self, region: Region, names: Names) -> list[Tensor]:
        """The tensors that are results of a region's node."""
        value = build(region.returns, names)
        found = _parts(value, objects=False) if self.entered_by_all else _top(value)
        return [part for part in found if isinstance(part, Tensor)]

    def _give(self, node: Region | Again, outcome: object, names: Names) -> None:
        bind(node.gives, outcome, names)
        if node.returned:
            names[node.returned] = outcome

    def _result(self, tensor: Tensor, given: Sequence[Tensor], asks: bool) -> Tensor:
        """A tensor that a region returns, as the result of a node: the same one with another graph, also
        if the region captures it, and a new one for an argument."""
        if tensor in given:
            return tensor.alias(asks, view=True)
        if self.entered_by_all and (not asks or tensor in self._frozen):
            return tensor
        if tensor.view and not asks:
            return tensor
        self.detaches |= tensor.asks and not asks
        tensor.requires, tensor.made = asks, None
        return tensor

    def _body(self, region: Region, names: Names) -> None:
        self._chain.append(self._moment)
        self.chains[self._moment] = tuple(self._chain)
        self._run(region.body, names)
        self._chain.pop()

    def outputs(self) -> list[object]:
        """What the program puts out: values of tensors, and answers to `asks_gradient`."""
        return [value.value if isinstance(value, Tensor) else value for value in self._found()]

    def _found(self) -> list[object]:
        return [p for name in leaves(self.case.outputs) for p in _parts(self.names.get(name))]

    def moves(self) -> bool:
        """Whether a tensor that the program starts from is now a result in the graph."""
        return any(isinstance(t, Tensor) and t.made is not None for t in self.given.values())

    def behind(self) -> set[int]:
        """The outermost calls, by their moments, that are in the graph of the outputs, or in that of
        what a region in it captures."""
        waiting = [t.made for t in self._found() if isinstance(t, Tensor)]
        seen: set[Node] = set()
        while waiting:
            node = (waiting.pop() or (None,))[0]
            if node is not None and node not in seen:
                seen.add(node)
                waiting += node.before
                if node.call is not None:
                    region, _, names = node.call
                    captured = map(names.get, region.captured())
                    waiting += [t.made for t in captured if isinstance(t, Tensor)]
        outermost = {node.chain[0] if node.chain else node.moment for node in seen}
        return outermost & self.calls.keys()

    # -- backward -------------------------------------------------------------------------------------

    def asks(self, loss: Loss) -> bool:
        """Whether a loss requires a gradient."""
        tensor = self.names[loss.name]
        return isinstance(tensor, Tensor) and tensor.asks

    def backward(self, loss: Loss, only: Collection[str], retain: bool = False) -> None:
        """A backward pass from a loss, to some tensors only where these are given. Raises
        `NodeError`."""
        tensor = self.names[loss.name]
        assert isinstance(tensor, Tensor)
        if not self.asks(loss):
            if self.entered_by_all:  # gradients are zeros
                return
            raise NodeError("detached")
        self._only = {t.made or t: t for t in map(self.asking.__getitem__, only)}
        self._back = True
        passed = self._pass([(tensor, 0 if tensor.void else 1)], retain)
        self._back = False
        if not self.opaque:
            for moment, chain in self.chains.items():
                self.entered[moment] += len(passed.intersection(chain))

    def _pass(self, ends: Iterable[tuple[Tensor, int]], retain: bool = False) -> set[int]:
        """A backward pass through the nodes that the ends lead to, the latest first: the calls
        that these are in."""
        passed: set[int] = set()
        flowing: dict[Node, list[int | None]] = {}
        leaves: dict[Tensor, int | None] = {}

        def give(tensor: Tensor, made: tuple[Node, int] | None, number: int | None) -> None:
            end = self._end(tensor, made)
            if end is not None:
                leaves[end] = added(leaves.get(end), number)
            if made is not None and (not self._only or self._leads(made[0])):
                numbers = flowing.setdefault(made[0], [None] * made[0].results)
                numbers[made[1]] = added(numbers[made[1]], number)

        for tensor, number in ends:
            give(tensor, tensor.made, number)
        while flowing:
            node = max(flowing, key=lambda n: n.number)
            numbers = flowing.pop(node)
            passed.update(node.chain)
            if any(numbers[place] is None for place in node.hooked):
                raise NodeError("hook")
            if node.freed and node.saves:
                raise NodeError("freed")
            if any(tensor.made is None for tensor in node.kept):
                raise NodeError("detached-saved")
            if node.call is not None:
                back = self._again(node, [number or 0 for number in numbers])
            else:
                back = [through(node, numbers, place) for place in range(len(node.arguments))]
            # Gradients of gradients keep the graph, but a region has dropped its arguments.
            kept = retain or (self._higher and node.call is None)
            node.freed = node.freed or not kept
            for tensor, made, part in zip(node.arguments, node.before, back, strict=True):
                if (tensor.asks and node.number > tensor.since) or made is not None:
                    give(tensor, made, part)
        for leaf, total in leaves.items():
            leaf.gradient = added(leaf.gradient, total)
            leaf.passes += 1
        return passed

    def _end(self, tensor: Tensor, made: tuple[Node, int] | None) -> Tensor | None:
        """The tensor that keeps a gradient which comes to this one, if any does."""
        if self._only:
            return self._only.get(made or tensor)
        if made is None and tensor.made and tensor.made[0].call and tensor in self.asking.values():
            raise NodeError("moved")
        return tensor if made is None and tensor.asks else None

    def _leads(self, node: Node) -> bool:
        """Whether a node leads to the only tensors whose gradients are wanted."""
        waiting, seen = [node], {node}
        while waiting:
            one = waiting.pop()
            for tensor, before in zip(one.arguments, one.before, strict=True):
                if (before or tensor) in self._only:
                    return True
                if before is not None and before[0] not in seen:
                    seen.add(before[0])
                    waiting.append(before[0])
        return False

    def _again(self, node: Node, numbers: list[int]) -> list[int | None]:
        """Run a region again, with a graph, and go back through it: the gradients of its arguments."""
        assert node.call is not None
        if self._only and not self.entered_by_all:
            raise NodeError("refused")
        if self._running[node] > 1:  # what it comes to twice may be freed, which raises
            raise NodeError("endless")
        self._running[node] += 1
        region, call, names = node.call
        arguments = node.arguments
        if self.pops and region.granularity == "module":
            if not self._waiting[region.name]:
                raise NodeError("no-call")
            _, call, names = self._waiting[region.name].pop()
            arguments = tuple(self._entries(region, call, names))
        names = dict(names)
        both = zip(arguments, node.arguments, strict=True)
        detached = [t.alias(own.asks, view=False) for t, own in both]
        passing = iter(detached)
        inner = _given(region, call, names, passing)
        moment, self._moment = self._moment, node.moment
        self.entered[node.moment] += 1
        self._body(region, inner)
        self._moment = moment
        top = self._results(region, inner)
        ends = [(t, number) for t, number in zip(top, numbers, strict=True) if t.asks]
        if not self.entered_by_all and not ends:
            raise NodeError("no-result")
        if not self.entered_by_all and any(t.view and t.made is None for t, _ in ends):
            raise NodeError("detached")
        passed = len(detached) - len(list(passing))  # not what it reads by closure
        leaves = [*detached[:passed], *node.arguments[passed:]]
        before = [(t.gradient, t.passes) for t in leaves]
        for tensor in leaves:
            tensor.gradient = None
        only = self._only
        if self.entered_by_all:
            self._only = {t.made or t: t for t in leaves}
        if leaves or not self.entered_by_all:  # without any, there is nothing to come to
            self._pass(ends)
        self._only = only
        self._running[node] -= 1
        found = [t.gradient or 0 if self.entered_by_all else t.gradient for t in leaves]
        for tensor, (gradient, passes) in zip(leaves, before, strict=True):
            tensor.gradient, tensor.passes = gradient, passes
        pairs = zip(node.before, found, strict=True)
        self.nothing |= any(made and not made[0].call and part is None for made, part in pairs)
        return found


def _given(
    region: Region, node: Region | Again, names: Names, detached: Iterator[Tensor] | None = None
) -> Names:
    """The names in a region's body: those around it, and its arguments. Those that are tensors by
    themselves are detached where it runs again."""
    inner = dict(names)
    named = [(own, node.kwargs[key]) for key, own in region.kwargs.items()]
    for own, tree in (*zip(region.takes, node.takes, strict=True), *named):
        value = build(tree, names)
        if detached is not None and isinstance(value, Tensor):
            value = next(detached)
        bind(own, value, inner)
    return inner


def _saved(statement: Statement, named: Mapping[str, Sequence[Tensor]]) -> frozenset[str]:
    """Words for what a statement saves for its gradients: also a number that one is multiplied with."""
    needs = OPERATIONS[statement.op].needs
    asking = [name for name in needs if any(t.asks for t in named[name])]
    words = {word for name in asking for word in needs[name][0]}
    return frozenset(words | SAVED.get(statement.op, frozenset()) if asking else words)


def _is_its_argument(statement: Statement, given: Sequence[Tensor], sliced: bool) -> bool:
    """Whether a statement returns its argument as it is: one that does not raise, a cast to the dtype
    that the argument has, a dropout of no elements, or where `sliced` a slice such as `x[..., :]`."""
    if sliced and statement.op == "slice":
        start, stop, step, axis = (
            statement.options.get(n) for n in ("start", "stop", "step", "axis")
        )
        return not start and stop is None and step in (1, None) and bool(axis)
    cast = bool(given) and given[0].dtype == statement.options.get("dtype", "")
    empty = bool(given) and given[0].void and statement.op == "dropout"
    return OPERATIONS[statement.op].raises != "" or (cast and statement.op in CASTS) or empty


def _tensors(tree: object, names: Names) -> list[Tensor]:
    """The tensors among the names of an argument."""
    refs = tree if isinstance(tree, tuple) else (tree,)
    found = (names.get(ref.name) for ref in refs if isinstance(ref, Ref))
    return [value for value in found if isinstance(value, Tensor)]


def _top(value: object) -> list[Tensor]:
    """The tensors that are results by themselves."""
    if isinstance(value, Named):
        value = tuple(value.values())
    parts = value if isinstance(value, tuple) and not isinstance(value, Listed) else (value,)
    return [part for part in parts if isinstance(part, Tensor)]


def _parts(value: object, *, objects: bool = True) -> Iterator[object]:
    """What is in a container, and in those in it; or what is none."""
    if not isinstance(value, tuple | dict):
        yield value
    elif objects or not isinstance(value, Object):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _parts(part, objects=objects)


def _replaced(value: object, results: Mapping[int, Tensor], *, nested: bool = False) -> object:
    if nested and isinstance(value, dict):
        return alike(value, {k: _replaced(v, results, nested=True) for k, v in value.items()})
    if nested and isinstance(value, tuple):
        return alike(value, (_replaced(part, results, nested=True) for part in value))
    if isinstance(value, Named):
        return Named((key, results.get(id(part), part)) for key, part in value.items())
    if isinstance(value, tuple) and not isinstance(value, Listed):
        return tuple(results.get(id(part), part) for part in value)
    return results.get(id(value), value)
