"""Where the values of a case come from and go to: what features are derived from.

Nothing is computed. Each name of a program stands for a `Tensor`; each time that a region is called is a
`Call` with the tensors that it is given, reads by closure, makes and returns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from conformance.language.nodes import Nodes
from conformance.language.operations import BOOLS, OPERATIONS
from conformance.model.case import (
    Again,
    Array,
    Case,
    Generator,
    Literal,
    Node,
    Ref,
    Region,
    Statement,
    Tree,
    Value,
    flat,
    leaves,
)

#: Beginnings of the names of dtypes that have a gradient.
_REAL = ("float", "bfloat", "complex")


@dataclass(eq=False)
class Tensor:
    """A value of a program. `asks`: it requires a gradient. `of` is the role of a tensor that the
    program starts from (`input`, `parameter`, `state`), `value` for what is no tensor, else `computed`.
    `maker` is the statement that computed it, `reads` are those that read it, in order."""

    of: str
    asks: bool = False
    floating: bool = True
    maker: Statement | None = None
    reads: list[tuple[int, Statement | Call]] = field(default_factory=list)
    #: When it is changed in place.
    changed: list[int] = field(default_factory=list)
    #: When it was computed.
    moment: int = 0
    #: The calls that have returned it.
    returned_by: list[Call] = field(default_factory=list)


@dataclass(eq=False)
class Step:
    """A statement that runs, at a moment of the program, in a call of a region or outside of any.
    `arguments` are its tensors by the operation's names for them."""

    statement: Statement
    moment: int
    call: Call | None
    arguments: Mapping[str, tuple[Tensor, ...]]
    made: tuple[Tensor, ...]


@dataclass(eq=False)
class Call:
    """A call of a region, at a moment of the program. `around` is the call whose body it is in."""

    region: Region
    moment: int
    around: Call | None
    given: tuple[Tensor, ...] = ()
    #: Those that are arguments by themselves, not in a container and not by name.
    top: tuple[Tensor, ...] = ()
    captured: tuple[Tensor, ...] = ()
    results: tuple[Tensor, ...] = ()
    #: Statements and calls of the body, in order.
    body: list[Statement | Call] = field(default_factory=list)
    #: By statement or call of the body (its `id`), the tensors that it read.
    read: dict[int, tuple[Tensor, ...]] = field(default_factory=dict)
    #: The last moment of the body.
    end: int = 0

    def within(self) -> Iterator[Call]:
        """This call and the calls in its body, at any depth."""
        yield self
        for item in self.body:
            if isinstance(item, Call):
                yield from item.within()

    def statements(self) -> Iterator[Statement]:
        """The statements of the body, those of inner calls included."""
        for item in self.body:
            if isinstance(item, Call):
                yield from item.statements()
            else:
                yield item

    @property
    def depth(self) -> int:
        """How many calls are around this one."""
        return 0 if self.around is None else self.around.depth + 1


class Flow:
    """The tensors and calls of a case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.calls: list[Call] = []
        self.of_region: dict[str, list[Call]] = {}
        self.given: dict[str, Tensor] = {}
        self.steps: list[Step] = []
        #: Statements outside of regions.
        self.outside: list[Statement] = []
        self._moment = 0
        self._regions: dict[str, Region] = {}
        for role, values in (
            ("input", case.inputs),
            ("parameter", case.parameters),
            ("state", case.state),
        ):
            for value in values:
                self.given[value.name] = _given(role, value)
        self.names = dict(self.given)
        self._run(case.program, self.names, None)

    def _run(self, nodes: Iterable[Node], names: dict[str, Tensor], call: Call | None) -> None:
        for node in flat(nodes):
            self._moment += 1
            if isinstance(node, Statement):
                self._statement(node, names, call)
            else:
                self._region(node, names, call)

    def _statement(self, node: Statement, names: dict[str, Tensor], call: Call | None) -> None:
        operation = OPERATIONS[node.op]
        read = [names[name] for name in node.names() if name in names]
        for tensor in read:
            tensor.reads.append((self._moment, node))
        changed = _changed(node)
        for tensor in (names[name] for name in changed if name in names):
            tensor.changed.append(self._moment)
        asks = bool(operation.needs) and any(t.asks for t in read)
        floating = node.op not in BOOLS and (not read or any(t.floating for t in read)) and not (
            node.op == "astype" and not str(node.options.get("dtype")).startswith(_REAL)
        )
        made = tuple(
            Tensor("computed", asks and floating, floating, node, moment=self._moment)
            for _ in node.targets
        )
        arguments = {
            name.removesuffix("..."): tuple(names[n] for n in leaves((given,)) if n in names)
            for name, given in zip(operation.tensors, node.arguments, strict=True)
        }
        self.steps.append(Step(node, self._moment, call, arguments, made))
        names.update(zip(node.targets, made, strict=True))
        if call is None:
            self.outside.append(node)
        else:
            call.body.append(node)
            call.read[id(node)] = tuple(read)

    def _region(self, node: Region | Again, names: dict[str, Tensor], around: Call | None) -> None:
        region = node if isinstance(node, Region) else self._regions[node.region]
        self._regions[region.name] = region
        if isinstance(node, Region) and not node.called:
            return
        given = [*leaves(node.takes), *leaves(node.kwargs)]
        own = [*leaves(region.takes), *leaves(region.kwargs)]
        call = Call(region, self._moment, around)
        call.given = tuple(names[name] for name in given if name in names)
        top = [names[tree.name] for tree in node.takes if isinstance(tree, Ref) and tree.name in names]
        call.top = tuple(tensor for tensor in top if tensor.of != "value")
        captured = [name for name in region.captured() if name in names]
        call.captured = tuple(names[name] for name in captured)
        for tensor in (*call.given, *call.captured):
            tensor.reads.append((self._moment, call))
        inner = dict(names)
        inner.update(zip(own, [names.get(name, Tensor("value")) for name in given], strict=False))
        self.calls.append(call)
        self.of_region.setdefault(region.name, []).append(call)
        if around is not None:
            around.body.append(call)
            around.read[id(call)] = (*call.given, *call.captured)
        self._run(region.body, inner, call)
        call.end = self._moment
        call.results = tuple(inner[name] for name in leaves(region.gives) if name in inner)
        for tensor in call.results:
            tensor.returned_by.append(call)
        names.update(zip(leaves(node.gives), call.results, strict=False))
        if node.returned:
            names[node.returned] = Tensor("value")

    @cached_property
    def backward(self) -> Backward:
        """What backward reads of it."""
        return Backward(self)

    @cached_property
    def nodes(self) -> Nodes:
        """What goes otherwise where regions are nodes of the graph."""
        return Nodes(self.case)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors that the program returns."""
        return tuple(self.names[name] for name in leaves(self.case.outputs) if name in self.names)


def _given(role: str, value: Array | Value | Generator) -> Tensor:
    """A value that the program starts from."""
    if not isinstance(value, Array):
        return Tensor("value", floating=False)
    return Tensor(role, value.gradient, value.dtype.startswith(_REAL))


def _changed(node: Statement) -> tuple[str, ...]:
    """The names that a statement changes in place."""
    operation = OPERATIONS[node.op]
    updated = [name for name in operation.updates if name in operation.tensors]
    places = [operation.tensors.index(name) for name in updated]
    if operation.capability == "in-place":
        places.append(0)
    arguments = (node.arguments[place] for place in places if place < len(node.arguments))
    return tuple(argument.name for argument in arguments if isinstance(argument, Ref))


def parts(tree: Tree) -> tuple[Tree, ...]:
    """The parts of a tree at its top level; the tree itself where it is no container."""
    if isinstance(tree, Ref | Literal):
        return (tree,)
    return tuple(tree.values()) if isinstance(tree, Mapping) else tree


def needed(step: Step) -> frozenset[str]:
    """Words for what the gradients of a statement need: arguments by name, `out` and `mask`. Literals
    are left out."""
    needs = OPERATIONS[step.statement.op].needs
    asking = (name for name, given in step.arguments.items() if any(t.asks for t in given))
    words = frozenset(word for name in asking if name in needs for word in needs[name][0])
    return frozenset(w for w in words if w in ("out", "mask") or step.arguments[w])


class Backward:
    """A backward pass over the program of a case, from its losses."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        losses = (flow.case.loss, flow.case.then)
        self._ends = [flow.names[loss.name] for loss in losses if loss is not None]
        #: The moments of the statements that gradients flow through.
        self.steps = self._reached(self._ends)

    def _reached(self, ends: Iterable[Tensor]) -> frozenset[int]:
        """The moments of the statements that gradients flow through from these tensors."""
        reached = {id(tensor) for tensor in ends if tensor.asks}
        steps: set[int] = set()
        for step in reversed(self.flow.steps):
            if any(id(made) in reached for made in step.made):
                needs = OPERATIONS[step.statement.op].needs
                given = [t for name in needs for t in step.arguments.get(name, ())]
                reached |= {id(t) for t in given if t.asks}
                steps.add(step.moment)
        return frozenset(steps)

    @cached_property
    def held(self) -> frozenset[int]:
        """The moments of the statements whose graph lives until backward: outputs come from them, or
        arguments of regions that save something."""
        ends = [*self._ends, *self.flow.outputs]
        while True:
            held = self._reached(ends)
            kept = [c for c in self.flow.calls if id(c) in self._calls(held) and c.around is None]
            more = [t for call in kept for t in (*call.given, *call.captured) if t not in ends]
            if not more:
                return held
            ends += more

    @cached_property
    def saving(self) -> frozenset[int]:
        """The calls of regions that save something until backward."""
        return self._calls(self.held)

    @cached_property
    def again(self) -> frozenset[int]:
        """The calls of regions that have saved what backward reads."""
        return self._calls(self.steps)

    def _calls(self, moments: frozenset[int]) -> frozenset[int]:
        """The calls in which statements of these moments save something. A region saves the arguments of
        one inside it that does."""
        steps = (s for s in self.flow.steps if s.moment in moments and s.call is not None)
        found = {id(step.call) for step in steps if needed(step)}
        for call in reversed(self.flow.calls):
            if id(call) in found and call.around is not None and call.top:
                found.add(id(call.around))
        return frozenset(found)

    def reads_drawn(self, call: Call, operations: Collection[str]) -> bool:
        """Whether backward reads, in a call that runs again, what comes from draws of these operations in
        it. What a policy keeps is that of the forward pass, but for the mask of a dropout."""
        drawn: set[int] = set()
        read = False
        for step in self.flow.steps:
            if not call.moment < step.moment <= call.end or step.call is None:
                continue
            own = step.statement.op in operations
            given = any(id(t) in drawn for ts in step.arguments.values() for t in ts)
            kept = step.call.region.saves(step.statement)
            if (own or given) and not kept:
                drawn |= {id(tensor) for tensor in step.made}
            masked = own and step.moment in self.steps and "mask" in needed(step)
            read |= masked or any(id(tensor) in drawn for tensor in self.read(step))
        return read

    def read(self, step: Step) -> Iterator[Tensor]:
        """The tensors that backward reads for the gradients of a statement."""
        for word in needed(step) if step.moment in self.steps else ():
            yield from step.made if word == "out" else step.arguments.get(word, ())

    def _last(self, call: Call) -> Step | Call | None:
        """What is the last in a call to save something: a statement, or a region its arguments."""
        steps = [step for step in self.flow.steps if step.call is call and needed(step)]
        calls = [inner for inner in self.flow.calls if inner.around is call and inner.top]
        return max((*steps, *calls), key=lambda item: item.moment, default=None)

    def last_saved(self, call: Call) -> Statement | None:
        """The statement that is the last in a call to save something; `None` for a region."""
        last = self._last(call)
        return last.statement if isinstance(last, Step) else None

    def stop(self, call: Call) -> int:
        """The moment before which all that a call has saved is computed again."""
        last = self._last(call)
        if isinstance(last, Step) and not needed(last).isdisjoint(("out", "mask")):
            return last.moment + 1
        return last.moment if last else 0

    def draws_again(self, call: Call, operations: Collection[str], *, early: bool = False) -> bool:
        """Whether a draw of one of these operations in a call runs again; with `early`, where a rerun
        ends at the last value that was saved."""
        return id(call) in self.again and any(
            step.statement.op in operations
            and call.moment < step.moment <= call.end
            and not (early and step.moment >= self.stop(call))
            and not (step.call and step.call.region.saves(step.statement))
            for step in self.flow.steps
        )
