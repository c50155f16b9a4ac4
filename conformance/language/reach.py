"""Which regions and tensors a gradient of the loss reaches on its way back, in two ways: through the
operations of the program, as it should, and through each region as if it were one operation, as in an
implementation that enters a region into the graph as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from conformance.language.flow import Call, Flow, Step, Tensor, parts, returned
from conformance.language.operations import CASTS, OPERATIONS, RANDOM, VIEWS
from conformance.model.case import FORWARD_MODE, Literal, Ref, Tree, leaves
from conformance.model.containers import Object

#: Operations whose gradient depends on which of their elements are largest or positive, and on no more.
STEPWISE = frozenset({"relu", "rrelu", "abs", "maximum", "max", "max_pool2d"})
#: Operations on complex tensors whose gradient has the parts that it is given, and no others.
_PARTWISE = frozenset({"add", "subtract", "negative", "concat", "sum", "mean"}) | (VIEWS - CASTS)
_BOTH = frozenset({"real", "imag"})


def losses(flow: Flow, *, handles: bool = False) -> tuple[Tensor, ...]:
    """The tensors that the procedure differentiates, each in a backward pass of its own."""
    names = flow.handles if handles else flow.names
    found = (names.get(loss.name) for loss in (flow.case.loss, flow.case.then) if loss)
    return tuple(tensor for tensor in found if tensor is not None)


def told(flow: Flow) -> frozenset[Tensor]:
    """The tensors whose gradients a program returns."""
    return frozenset(flow.given[name] for name in flow.case.wrt if name in flow.given)


def wanted(flow: Flow) -> frozenset[Tensor]:
    """The tensors whose gradients the procedure asks for: in training, those of parameters, too."""
    trained = flow.case.parameters if flow.case.procedure.kind == "train" else ()
    return told(flow).union(flow.given[array.name] for array in trained if array.gradient)


def active(flow: Flow, of: frozenset[Tensor]) -> frozenset[Tensor]:
    """The tensors that depend differentiably on some of these."""
    found = set(of)
    for step in steps(flow.items):
        if not found.isdisjoint(step.differentiable()):
            found.update(tensor for tensor in step.makes if tensor.floating)
    return frozenset(found)


def steps(items: Sequence[Step | Call]) -> Iterator[Step]:
    """All steps, those of regions included."""
    for item in items:
        if isinstance(item, Call):
            yield from steps(item.items)
        else:
            yield item


@dataclass
class Reached:
    """What a backward pass reaches: tensors, and the steps and calls that are on its way."""

    tensors: set[Tensor] = field(default_factory=set)
    steps: set[Step] = field(default_factory=set)
    calls: set[Call] = field(default_factory=set)

    @classmethod
    def of(cls, passes: Sequence[Reached]) -> Reached:
        """What several passes reach."""
        return cls(
            set().union(*(one.tensors for one in passes)),
            set().union(*(one.steps for one in passes)),
            set().union(*(one.calls for one in passes)),
        )


def through_operations(flow: Flow, of: frozenset[Tensor]) -> tuple[Reached, ...]:
    """What the gradients with respect to these tensors reach, in each backward pass."""
    alive = active(flow, of)
    return tuple(_through(flow, loss, alive) for loss in losses(flow))


def _through(
    flow: Flow, loss: Tensor, alive: frozenset[Tensor], *, telling: bool = False
) -> Reached:
    """What the gradients of a loss reach; with `telling`, but where they are zeros, whatever the numbers
    are."""
    found = Reached({loss} & alive)
    parts: dict[Tensor, frozenset[str]] = {}
    for step in reversed(tuple(steps(flow.items))):
        if found.tensors.isdisjoint(step.makes):
            continue
        asked = alive.intersection(_told(step, parts) if telling else step.differentiable())
        if asked:
            found.tensors |= asked
            found.steps.add(step)
            found.calls.update(around(step))
    return found


def _told(step: Step, parts: dict[Tensor, frozenset[str]]) -> frozenset[Tensor]:
    """The arguments of a step whose gradients are not zeros by what the step is: the difference or the
    quotient of a tensor and itself, or one part of a complex tensor. `parts` are those of the gradients
    of complex tensors, as far as is known, and those of the arguments are added."""
    op, read = step.statement.op, frozenset(step.differentiable())
    whole = frozenset().union(*(parts.get(tensor, frozenset()) for tensor in step.makes))
    if op in ("subtract", "divide") and step.reads["a"] == step.reads["b"]:
        return frozenset()
    if op == "to_complex":
        names = {"real": "a", "imag": "b"}
        return read.intersection(t for part in whole for t in step.reads[names[part]])
    if op not in _PARTWISE:
        whole = _BOTH & {op} or _BOTH
    parts.update((tensor, parts.get(tensor, frozenset()) | whole) for tensor in read)
    return read


def around(item: Step | Call) -> Iterator[Call]:
    """The calls around a step, or a call and those around it; the innermost first."""
    call = item.call if isinstance(item, Step) else item
    while call is not None:
        yield call
        call = call.around


def read(call: Call, *, keywords: bool = False) -> Iterator[Tensor]:
    """The handles that a call reads, those that it passes to calls in it by position, or with `keywords`
    in any way, and those that calls in it return as they are."""
    for item in call.items:
        if isinstance(item, Call):
            yield from _taken(item, keywords)
            for tensor in read(item, keywords=keywords):
                yield tensor if tensor not in item.inside else tensor.handles or tensor
            yield from (before.itself for _, before in _passed_on(item))
        else:
            every = (t for some in item.handles.values() for t in some if not _is(item, t))
            yield from (t.itself for t in every)


def _is(step: Step, tensor: Tensor) -> bool:
    """Whether a step only gives a tensor back, or casts it to the dtype that it has."""
    cast = step.statement.op in CASTS and step.statement.options["dtype"] == tensor.dtype
    return cast or OPERATIONS[step.statement.op].raises != ""


def _taken(call: Call, keywords: bool, *, inside: bool = False) -> tuple[Tensor, ...]:
    given = call.inside if inside else call.handles
    return given if keywords else given[: len(leaves(call.region.takes))]


def entries(call: Call, *, keywords: bool = False, inside: bool = False) -> frozenset[Tensor]:
    """What goes into a region as one operation, as handles around it or `inside`: its positional
    arguments, with `keywords` those by keyword, too, and the parameters that it reads by closure."""
    reads = read(call, keywords=keywords)
    captured = {tensor for tensor in reads if tensor.of == "parameter" and tensor.asks}
    taken = _taken(call, keywords, inside=inside)
    return frozenset(tensor for tensor in (*taken, *captured) if tensor.floating)


def through_regions(
    flow: Flow, *, keywords: bool = False, only: frozenset[Tensor] | None = None
) -> tuple[Reached, ...]:
    """What each backward pass reaches where each region is one operation: as soon as one of its
    results is reached, all its `entries` are, and it runs again as a whole, with the gradients of
    all its results with respect to all its entries; with `keywords`, not of results in objects. A map
    takes a region apart: one that is mapped does not run again. With `only`, no other tensors of the
    program's require a gradient."""
    every = frozenset(tensor for tensor in flow.given.values() if tensor.asks)
    given = every if only is None else every & only
    ends = losses(flow, handles=True)
    return tuple(_back(flow.items, given, {loss}, keywords) for loss in ends)


def _back(
    items: Sequence[Step | Call], of: frozenset[Tensor], ends: set[Tensor], keywords: bool
) -> Reached:
    recorded, entered = set(of), set[Call]()
    for item in _opened(items):
        if isinstance(item, Step):
            if not recorded.isdisjoint(item.differentiable(handles=True)):
                recorded.update(tensor for tensor in item.makes if tensor.floating)
        elif not recorded.isdisjoint(entries(item, keywords=keywords)):
            # Of integers, too, a gradient can be asked.
            recorded.update(_given_back(item, keywords))
            entered.add(item)
        else:  # what it returns as it is has the graph that it had
            recorded.update(tensor for tensor, before in _passed_on(item) if before in recorded)
    found = Reached(ends & recorded)
    for item in reversed(tuple(_opened(items))):
        if isinstance(item, Step):
            if not found.tensors.isdisjoint(item.makes):
                found.tensors |= recorded.intersection(item.differentiable(handles=True))
                found.steps.add(item)
            continue
        if item not in entered:
            found.tensors |= {b for t, b in _passed_on(item) if t in found.tensors} & recorded
        elif not found.tensors.isdisjoint(_given_back(item, keywords)):
            found.tensors |= recorded & entries(item, keywords=keywords)
            if not item.region.mapped:
                found.calls.add(item)
                inside = entries(item, keywords=keywords, inside=True)
                # A parameter is one by whatever way it came.
                inside |= {t for t in item.inside if t.asks and t.handled.of == "parameter"}
                ends = set(_given_back(item, keywords))
                inner = _back(item.items, inside, ends, keywords)
                found.steps |= inner.steps
                found.calls |= inner.calls
    return found


def _followed(items: Sequence[Step | Call], found: set[Tensor]) -> set[Tensor]:
    for item in items:
        if isinstance(item, Step):
            if not found.isdisjoint(item.differentiable(handles=True)):
                found.update(tensor for tensor in item.makes if tensor.floating)
            continue
        entered = not found.isdisjoint(entries(item))
        found.update(tensor for tensor in item.inside if tensor.handles in found)
        _followed(item.items, found)
        found.update(tensor for tensor in item.returns if tensor.handles in found)
        found.update(_given_back(item) if entered else ())
    return found


def _given_back(call: Call, keywords: bool = False) -> list[Tensor]:
    """What a call returns, without what it leaves in a list, which has no gradient there; with
    `keywords`, without what is in an object, which implementations do not look into."""
    gives, left = call.region.gives, call.region.left
    found = zip(leaves(gives), call.returns, _in_objects(gives), strict=True)
    return [t for name, t, lost in found if name not in left and not (keywords and lost)]


def _in_objects(tree: Tree, within: bool = False) -> Iterator[bool]:
    """For each name in a tree, whether it is in an object."""
    if isinstance(tree, Ref | Literal):
        yield from (within for _ in leaves(tree))
    else:
        for part in parts(tree):
            yield from _in_objects(part, within or isinstance(tree, Object))


def _passed_on(call: Call) -> Iterator[tuple[Tensor, Tensor]]:
    """What a call returns as it is, with what that is around the call."""
    raising = (s for s in steps(call.items) if OPERATIONS[s.statement.op].raises)
    same = {step.makes[0]: next(step.differentiable(handles=True), None) for step in raising}
    own = {tensor for one in call.within() for tensor in (*one.inside, *one.returns)}
    for tensor in _given_back(call):
        before: Tensor | None = tensor
        while before is not None and (before in same or before in own):
            before = same.get(before, before.handles)
        if before is not None:
            yield tensor, before


def _opened(items: Sequence[Step | Call]) -> Iterator[Step | Call]:
    """The items, and before each mapped region what is in it."""
    for item in items:
        if isinstance(item, Call) and item.region.mapped:
            yield from _opened(item.items)
        yield item


def updated(flow: Flow) -> bool:
    """Whether what a program puts out may share memory with a parameter."""
    shared = {tensor for tensor in flow.given.values() if tensor.of == "parameter"}
    for step in steps(flow.items):
        if step.statement.op in VIEWS and any(map(shared.intersection, step.reads.values())):
            shared.update(step.makes)
    names = (name for tree in returned(flow.case) for name in leaves(tree))
    return any(flow.names.get(name) in shared for name in names)


class Reach:
    """What the gradients of a case reach: `needed` with respect to the tensors that the procedure asks
    for, `asking` with respect to all that require one, both through operations, and `opaque` through
    regions."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self.wanted = wanted(flow)
        #: The tensors that depend on those that are asked for.
        self.asked = active(flow, self.wanted)

    @cached_property
    def passes(self) -> tuple[Reached, ...]:
        """What is needed, in each backward pass."""
        return through_operations(self._flow, self.wanted)

    @cached_property
    def needed(self) -> Reached:
        return Reached.of(self.passes)

    @cached_property
    def live(self) -> frozenset[Tensor]:
        """The handles that gradients of those that are asked for come to, through operations."""
        found = {*losses(self._flow, handles=True)}
        for step in self.needed.steps:
            found.update(step.differentiable(handles=True))
        for tensor in tuple(found):
            while tensor.handles is not None:
                tensor = tensor.handles
                found.add(tensor)
        return frozenset(found)

    @cached_property
    def telling(self) -> Reached:
        """What is needed, but where its gradient is zeros, whatever the numbers are."""
        flow = self._flow
        passes = [_through(flow, loss, self.asked, telling=True) for loss in losses(flow)]
        return Reached.of(passes)

    @cached_property
    def followed(self) -> frozenset[Tensor]:
        """The handles of what depends on those that are differentiated: where a part of them is, on
        those that are asked for, else on all that require a gradient. Each region counts as one
        operation, all of whose results depend on all its `entries`."""
        part = self._flow.case.procedure.kind in ("part", "jacobian", "inference", *FORWARD_MODE)
        asking = {tensor for tensor in self._flow.given.values() if tensor.asks}
        return frozenset(_followed(self._flow.items, set(self.wanted) if part else asking))

    @cached_property
    def asking_passes(self) -> tuple[Reached, ...]:
        every = frozenset(tensor for tensor in self._flow.given.values() if tensor.asks)
        return through_operations(self._flow, every)

    @cached_property
    def asking(self) -> Reached:
        return Reached.of(self.asking_passes)

    @cached_property
    def opaque_passes(self) -> tuple[Reached, ...]:
        return through_regions(self._flow)

    @cached_property
    def opaque(self) -> Reached:
        return Reached.of(self.opaque_passes)

    @cached_property
    def keyword_passes(self) -> tuple[Reached, ...]:
        """What is reached through regions if arguments by keyword are among those of the operation, and
        the framework is told which gradients are asked for where the procedure is `part` or
        `functional`."""
        part = self._flow.case.procedure.kind in ("part", "functional")
        return through_regions(self._flow, keywords=True, only=self.wanted if part else None)


@lru_cache(maxsize=4)
def reach(flow: Flow) -> Reach:
    """What the gradients of a case reach."""
    return Reach(flow)


def needs_rerun(reach: Reach, call: Call, *, inner: bool = False) -> bool:
    """Whether a gradient in a call of a region needs a value that is made in it and that no policy
    keeps, however it is computed; with `inner`, one that the call does not return."""
    made: set[Tensor] = set()
    for step in steps(call.items):
        kept = step.call is not None and step.call.region.saves(step.statement)
        if not kept:
            made.update(t for t in step.makes if not (inner and t in call.results))
        elif step.statement.op in RANDOM:
            continue  # its mask is kept, too
        if step in reach.needed.steps and _reads(reach, step, made, mask=not inner):
            return True
    return False


def _reads(reach: Reach, step: Step, made: set[Tensor], *, mask: bool) -> bool:
    """Whether the gradients of a step read some of these tensors, however they are computed; with
    `mask`, or a value other than the program's tensors."""
    at_hand = {"out": step.makes, **step.reads}
    needs = OPERATIONS[step.statement.op].needs
    masked = (
        mask and step.statement.options.get("times") != 1
    )  # a loop of one round keeps nothing else
    return any(
        all(
            any(
                (masked and word == "mask") or not made.isdisjoint(at_hand.get(word, ()))
                for word in words
            )
            for words in needs[name]
        )
        for name, read in step.reads.items()
        if name in needs and not reach.asked.isdisjoint(read)
    )
