"""A region of a case with its calls, and what is asked of them: which of it gradients reach, what
it takes and returns, what it changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from conformance.language.flow import Call, Flow, Step, Tensor, parts
from conformance.language.operations import BOOLS, NOTED, OPERATIONS, RANDOM, VIEWS
from conformance.language.reach import STEPWISE, Reach, entries, reach, steps
from conformance.model.case import (
    Literal,
    Ref,
    Region,
    Statement,
    Tree,
    Value,
    leaves,
)
from conformance.model.containers import Listed, Named, Object

#: The relative tolerance of float16, which is the finer one of half precision.
HALF = 1e-2
#: Operations that make tensors of fewer elements than they read.
FEWER = frozenset({"sum", "mean", "max", "split", "slice", "max_pool2d", "avg_pool2d"})
#: Operations whose gradient needs no value of the forward pass.
_COMPARING = frozenset({"subtract", "divide", "maximum"})
#: Arguments whose gradients are that of the result.
_PASSES = {"add": ("a", "b"), "subtract": ("a",)}
LINEAR = frozenset(
    name
    for name, operation in OPERATIONS.items()
    if operation.needs and all(frozenset() in ways for ways in operation.needs.values())
)


@dataclass(frozen=True)
class Place:
    """A region of a case, with its calls."""

    flow: Flow
    region: Region
    calls: tuple[Call, ...]

    @property
    def given(self) -> Iterator[Tensor]:
        """All arguments of all calls."""
        return (tensor for call in self.calls for tensor in call.given)

    @property
    def captured(self) -> Iterator[Tensor]:
        """All tensors that calls read by closure."""
        return (tensor for call in self.calls for tensor in call.captured)

    @property
    def results(self) -> Iterator[Tensor]:
        """All results of all calls."""
        return (tensor for call in self.calls for tensor in call.results)

    @property
    def reach(self) -> Reach:
        """What gradients of the loss reach."""
        return reach(self.flow)

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """The statements of the region, inner regions included."""
        return tuple(s for call in self.calls[:1] for s in call.statements())

    @cached_property
    def draws(self) -> tuple[Statement, ...]:
        """The statements that draw random numbers."""
        return tuple(s for s in self.statements if s.op in RANDOM)

    def own(self) -> tuple[Statement, ...]:
        """The statements of the region itself."""
        items = (item for call in self.calls[:1] for item in call.items)
        return tuple(item.statement for item in items if isinstance(item, Step))

    def inside(self, tensor: Tensor) -> bool:
        """Whether a tensor is made in the region."""
        return tensor.maker is not None and any(
            call.moment < tensor.moment <= call.end for call in self.calls
        )

    def after(self) -> Iterator[Statement | Call]:
        """What reads results of the region after it."""
        for call in self.calls:
            for tensor in call.results:
                yield from (item for at, item in tensor.reads if at > call.end)

    def depends(self) -> bool:
        """Whether some tensor that goes in, or is made in it, requires a gradient."""
        return any(t.asks for t in (*self.given, *self.captured))


def dead(place: Place) -> bool:
    """Whether a statement of the region makes what neither its results nor a write come from."""
    for call in place.calls[:1]:
        needed = {id(t.maker) for t in call.results} | {
            id(c) for t in call.results for c in t.returned_by
        }
        for item in reversed(call.items):
            if isinstance(item, Step):
                statement = item.statement
                writes = statement.op in NOTED or OPERATIONS[statement.op].updates
                if not writes and id(statement) not in needed:
                    return True
                read = [tensor for tensors in item.reads.values() for tensor in tensors]
            else:
                read = [*item.given, *item.captured]
            needed |= {
                id(maker) for tensor in read for maker in (tensor.maker, *tensor.returned_by)
            }
    return False


def contains(tree: Tree, kind: type) -> bool:
    """Whether there is a container of a kind in a tree. An object is no mapping."""
    if isinstance(tree, kind) and (kind is Object or not isinstance(tree, Object)):
        return True
    return not isinstance(tree, Ref | Literal) and any(contains(p, kind) for p in parts(tree))


def top(tree: Tree) -> tuple[str, ...]:
    """The names at the top level of a tree; inside a list, a dict or an object none."""
    if isinstance(tree, Listed) or (isinstance(tree, Mapping) and not isinstance(tree, Named)):
        return ()
    return tuple(part.name for part in parts(tree) if isinstance(part, Ref))


def literal_of(statement: Statement | Call) -> bool:
    return isinstance(statement, Statement) and any(
        isinstance(a, Literal) for a in statement.arguments
    )


def is_bool(tensor: Tensor) -> bool:
    return tensor.maker is not None and tensor.maker.op in BOOLS


def may_cancel(statement: Statement) -> bool:
    """Whether the gradient of a statement may be zero whatever the numbers are."""
    names = statement.names()
    itself = statement.op in _COMPARING and len(set(names)) < len(names)
    return itself or bool(OPERATIONS[statement.op].parts)


def of_one(flow: Flow) -> bool:
    """Whether a statement takes the difference, the quotient or the maximum of what linear operations
    make of one tensor."""
    source: dict[Tensor, Tensor] = {}
    for step in steps(flow.items):
        op, read = step.statement.op, [source.get(tensor, tensor) for tensor in step.read()]
        if op in _COMPARING and len(set(read)) < len(read):
            return True
        scaling = op == "multiply" or (op == "divide" and bool(step.reads.get("a")))
        if len(read) == 1 and (op in LINEAR or scaling):
            source.update(dict.fromkeys(step.makes, read[0]))
    return False


def from_region(place: Place, tensor: Tensor) -> bool:
    """Whether another region has returned a tensor before."""
    first = place.calls[0].moment
    return any(c.region is not place.region and c.end < first for c in tensor.returned_by)


def bypassed(place: Place, *, by_name: bool, of: frozenset[Tensor] | None = None) -> bool:
    """Whether a gradient passes through tensors that go into a call by name, or in no other way than by
    closure, and not as into one operation; with `of`, through some of these."""
    asked = place.reach.asked if of is None else of
    for call in place.calls:
        if call.region.mapped:
            continue
        entering = entries(call, inside=True)
        named = call.inside[len(leaves(call.region.takes)) :]
        found = _read(place, call, any(tensor.asks for tensor in entering))
        read = {tensor for tensor in found if tensor.handled in asked}
        beside = (tensor for tensor in read - entering if tensor.of != "parameter")
        if any((tensor in named) == by_name for tensor in beside):
            return True
    return False


def left_of_argument(reach: Reach, call: Call) -> bool:
    """Whether a gradient comes to what a call leaves and to what it depends on: a tensor that the call
    takes by position, or a parameter that it reads by closure."""
    found = {tensor for tensor in entries(call, inside=True) if tensor.asks}

    def depends(tensor: Tensor | None) -> bool:
        return tensor is not None and (tensor in found or depends(tensor.handles))

    for step in steps(call.items):
        if any(map(depends, step.differentiable(handles=True))):
            found.update(step.makes)
    gives = zip(leaves(call.region.gives), call.returns, strict=True)
    left = (tensor for name, tensor in gives if name in call.region.left)
    return any(depends(tensor) for tensor in left if tensor in reach.live)


def _read(place: Place, call: Call, returning: bool) -> Iterator[Tensor]:
    """The handles that go into a call and that a gradient comes to in it; with `returning`, also as
    what it returns as it is."""
    items = tuple(steps(call.items))
    raising = {s: OPERATIONS[s.statement.op].raises for s in items}
    #: What a statement that does not raise returns as it is.
    same = {s.makes[0]: next(s.differentiable(handles=True), None) for s in items if raising[s]}
    made = {tensor for step in items for tensor in step.makes}
    made |= {t for c in call.within() for t in (*c.returns, *(c.inside if c is not call else ()))}
    waiting = set(place.reach.live.intersection(call.returns) if returning else ())
    for step in place.reach.needed.steps.intersection(items):
        waiting.update(() if raising[step] else step.differentiable(handles=True))
    while waiting:
        tensor = waiting.pop()
        if tensor not in made:
            yield tensor
        before = None if tensor in call.inside else same.get(tensor, tensor.handles)
        waiting |= {before} if before is not None else set()


def reads(place: Place, *, draws: bool = False, parameters: bool = False) -> bool:
    """Whether a gradient that is taken in a call depends on what is drawn in it, or on parameters."""
    for call in place.calls:
        changed = {t for t in place.flow.given.values() if t.of == "parameter" and parameters}
        apart: set[Tensor] = set()
        for step in steps(call.items):
            drawn = draws and step.statement.op in RANDOM
            if _keeps_apart(step, changed, place.reach.asked, apart):
                apart.update(step.makes)
            elif step in place.reach.needed.steps and depends(place.reach, step, changed, drawn):
                return True
            if drawn or any(not changed.isdisjoint(read) for read in step.reads.values()):
                changed.update(step.makes)
    return False


def _keeps_apart(
    step: Step, changed: set[Tensor], asked: frozenset[Tensor], apart: set[Tensor]
) -> bool:
    """Whether no element of what a statement makes comes both from what changes and from what is asked
    for: it joins tensors, or takes each element of a tensor that is `apart` in this way by itself."""
    read = set(step.read())
    both = read & changed & asked
    if not both <= apart:
        return False
    operation = OPERATIONS[step.statement.op]
    alone = operation.elementwise or operation.view or operation.broadcasts
    return operation.name == "concat" or (
        alone and len(both) == 1 and (read - both).isdisjoint(changed | asked)
    )


def looked_up(place: Place) -> bool:
    """Whether a gradient comes to a lookup in the region itself whose indices come from an argument."""
    for call in place.calls:
        found = {tensor for tensor in call.inside if tensor.of != "value"}
        for step in (item for item in call.items if isinstance(item, Step)):
            operation = OPERATIONS[step.statement.op]
            whole = step.handles.get(operation.whole, ())
            if step in place.reach.needed.steps and not found.isdisjoint(whole):
                return True
            if any(not found.isdisjoint(step.handles.get(name, ())) for name in operation.needs):
                found.update(step.makes)
    return False


def depends(reach: Reach, step: Step, changed: set[Tensor], drawn: bool) -> bool:
    """Whether gradients of a step depend on tensors that change, however they are computed."""
    operation = OPERATIONS[step.statement.op]
    if drawn:
        return True
    every = tuple(tensor for read in step.reads.values() for tensor in read)
    return operation.name not in STEPWISE and any(
        all(
            any(not changed.isdisjoint(step.reads.get(word, every)) for word in words)
            for words in operation.needs[name]
        )
        for name, read in step.reads.items()
        if name in operation.needs and not reach.asked.isdisjoint(read)
    )


def inside_of(call: Call, kind: type) -> tuple[Tensor, ...]:
    """The tensors that a call is given in containers of a kind, or beside them in one argument."""
    trees = (*call.region.takes, *call.region.kwargs.values())
    return given_by(call, (tree for tree in trees if contains(tree, kind)))


def given_by(call: Call, trees: Iterable[Tree]) -> tuple[Tensor, ...]:
    """The tensors that a call is given by the names in some trees of its arguments."""
    names = {name for tree in trees for name in leaves(tree)}
    own = [*leaves(call.region.takes), *leaves(call.region.kwargs)]
    given = zip(own, call.given, strict=False)
    return tuple(t for name, t in given if name in names and t.of != "value")


def result_read(place: Place) -> bool:
    """Whether a gradient that is taken outside of regions depends on a result of the region."""
    changed = set(place.results)
    for step in steps(place.flow.items):
        if any(not changed.isdisjoint(read) for read in step.reads.values()):
            changed.update(step.makes)
        taken = step.call is None and step in place.reach.needed.steps
        if taken and depends(place.reach, step, changed, False):
            return True
    return False


def kept(place: Place) -> Iterator[str]:
    """The last operation of each call, regions inside it included, whose gradient reads a value."""
    for call in place.calls:
        asking = [s for s in steps(call.items) if s in place.reach.asking.steps]
        keeping = [s.statement.op for s in asking if saves(s)]
        yield from keeping[-1:]


def saves(step: Step) -> bool:
    """Whether a gradient of a step needs a value of the forward pass, however it is computed."""
    needs = OPERATIONS[step.statement.op].needs
    asking = (name for name, read in step.reads.items() if any(t.asks for t in read))
    return any(all(needs[name]) for name in asking if name in needs)


def changed_after_read(call: Call) -> bool:
    """Whether a call changes a tensor in place that a statement of it has read before."""
    read = {tensor for step in steps(call.items) for r in step.reads.values() for tensor in r}
    inside = [
        (at, changed)
        for tensor in read
        for changed in tensor.changed
        for at, _ in tensor.reads
        if call.moment < at < changed <= call.end
    ]
    return bool(inside)


def stopped_first(call: Call) -> bool:
    """Whether a call returns, before another result, what `stop_gradient` makes in its own body, or a
    view of that."""
    stopped: set[Tensor] = set()
    for step in (item for item in call.items if isinstance(item, Step)):
        read = {tensor for tensors in step.reads.values() for tensor in tensors}
        view = step.statement.op in VIEWS and not stopped.isdisjoint(read)
        if step.statement.op == "stop_gradient" or view:
            stopped.update(step.makes)
    return not stopped.isdisjoint(call.results[:-1])


def takes(place: Place, kind: type, *, inside: bool = False) -> bool:
    """Whether a region is passed a value of this kind other than a tensor; with `inside`, other than as
    a positional argument of its own."""
    region, flow = place.region, place.flow
    values = (value for value in flow.case.inputs if isinstance(value, Value))
    fitting = {id(flow.given[v.name]) for v in values if isinstance(v.value, kind)}
    own = top(region.takes) if inside else ()
    names = [*leaves(region.takes), *leaves(region.kwargs)]
    return any(
        id(given) in fitting and name not in own and name not in call.left_out
        for call in place.calls
        for name, given in zip(names, call.given, strict=False)
    )


def number_read(place: Place, kind: type) -> bool:
    """Whether a statement of the region reads a number of this kind, no tensor, that the region is given
    by position."""
    flow = place.flow
    values = (value for value in flow.case.inputs if isinstance(value, Value))
    found = {flow.given[value.name] for value in values if type(value.value) is kind}
    return any(
        c.moment < at <= c.end and isinstance(reader, Statement)
        for c in place.calls
        for given, _ in zip(c.given, leaves(place.region.takes), strict=False)
        if given in found
        for at, reader in given.reads
    )


def defaults(place: Place) -> Mapping[str, str]:
    """The arguments by name that the region's function has a default for, with their names inside."""
    left_out = {name for call in place.calls for name in call.left_out}
    named = {key: leaves(tree) for key, tree in place.region.kwargs.items()}
    return {key: names[0] for key, names in named.items() if names and names[0] in left_out}


def others(place: Place) -> Iterator[str]:
    """Those of them in whose place a call gives another value."""
    flow, region = place.flow, place.region
    own = [*leaves(region.takes), *leaves(region.kwargs)]
    values = {flow.given[v.name]: v.value for v in flow.case.inputs if isinstance(v, Value)}
    for key, name in defaults(place).items():
        given = (call.given[own.index(name)] for call in place.calls)
        if any(values[value] != values[flow.given[name]] for value in given):
            yield key


def one_gradient(call: Call) -> bool:
    """Whether two tensors that go into a region as one operation have one gradient: sums and
    differences alone lead from them to where it comes from."""
    every = tuple(steps(call.items))
    read = Counter(tensor for step in every for tensor in step.differentiable())
    read.update(call.results)
    source: dict[Tensor, Tensor] = {}
    for step in reversed(every):
        for name in _PASSES.get(step.statement.op, ()):
            alone = (tensor for tensor in step.reads[name] if read[tensor] == 1)
            source.update(dict.fromkeys(alone, source.get(step.makes[0], step.makes[0])))
    entering = {tensor.handled for tensor in entries(call)}
    found = [source[tensor] for tensor in entering if tensor in source]
    return len(set(found)) < len(found)


def in_graph(place: Place) -> bool:
    followed = place.reach.followed
    return any(t.asks and t in followed for call in place.calls for t in entries(call))
