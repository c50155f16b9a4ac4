"""What a framework with a tape saves of a program for backward, and what it reads of that: the
statements and the regions that save something, where a region stops running again, and which draws
it repeats.

Where the gradient of an operation can be written in several ways, the first of `OPERATIONS` is taken.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from math import inf

from conformance.language.flow import Call, Flow, Step, Tensor, redrawing, without_elements
from conformance.language.operations import (
    CASTS,
    CENTRED,
    OPERATIONS,
    SAVED,
    VIEWS,
    saved_more,
)
from conformance.language.reach import STEPWISE, losses, reach, steps
from conformance.model.case import Ref, leaves

#: Procedures in which the framework is told which gradients are asked for.
TOLD = ("part", "second_order", "third_order", "jacobian", "jvp_of_gradient", "gradient_of_jvp")


def _moment(step: Step) -> int:
    return step.moment


def needed(step: Step, asking: Collection[Tensor] | None = None) -> frozenset[str]:
    """Words for what the gradients of a statement need: arguments by name, `out` and `mask`. Numbers are
    left out. With `asking`, only for the gradients of these tensors."""
    needs = OPERATIONS[step.statement.op].needs
    words: set[str] = set()
    for name, given in step.reads.items():
        if any(t.asks if asking is None else t in asking for t in given):
            words |= needs[name][0] if name in needs else frozenset()
    reads = {n for n, some in step.reads.items() if any(t.of != "value" for t in some)}
    return frozenset(words.intersection(reads | {"out", "mask"}))


def saved(step: Step) -> frozenset[str]:
    """Words for what a statement saves: what its gradients need, or need the shape or the dtype of."""
    extra = SAVED.get(step.statement.op, frozenset())
    return needed(step).union(extra) if any(t.asks for t in step.differentiable()) else frozenset()


def top(call: Call) -> tuple[Tensor, ...]:
    """The tensors that are arguments of a call by themselves, not in a container and not by name."""
    alone = {tree.name for tree in call.region.takes if isinstance(tree, Ref)}
    return tuple(tensor for name, tensor in _given(call) if name in alone and tensor.of != "value")


def _given(call: Call) -> Iterator[tuple[str, Tensor]]:
    """The arguments of a call, with their names in the region; of those in containers, each part."""
    names = (*leaves(call.region.takes), *leaves(call.region.kwargs))
    return zip(names, call.given, strict=False)


def outermost(call: Call) -> Call:
    """The outermost of the calls around a call, or the call itself."""
    return call if call.around is None else outermost(call.around)


def by_reference(call: Call) -> frozenset[Tensor]:
    """The tensors that a region reads by closure, takes by name or in a container."""
    alone = {tree.name for tree in call.region.takes if isinstance(tree, Ref)}
    return frozenset((*call.captured, *(t for name, t in _given(call) if name not in alone)))


class Backward:
    """A backward pass over the program of a case, from its losses."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        #: All statements as they ran.
        self.every = tuple(steps(flow.items))
        self.reach = reach(flow)
        kind = flow.case.procedure.kind
        self.told = kind in TOLD
        #: The statements that gradients flow through, and those of them whose gradients are not zeros,
        #: whatever the numbers are.
        self.steps = frozenset((self.reach.needed if self.told else self.reach.asking).steps)
        self.telling = frozenset(self.reach.telling.steps)
        if kind in ("jvp", "gradient_of_jvp"):
            self.steps = self._of_tangent() if kind == "gradient_of_jvp" else frozenset()
            self.telling &= self.steps

    def _reached(self, ends: Iterable[Tensor]) -> frozenset[Step]:
        """The statements that gradients flow through from these tensors."""
        reached = {tensor for tensor in ends if tensor.asks}
        found: set[Step] = set()
        for step in reversed(self.every):
            if not reached.isdisjoint(step.makes):
                reached |= {tensor for tensor in step.differentiable() if tensor.asks}
                found.add(step)
        return frozenset(found)

    def _of_tangent(self) -> frozenset[Step]:
        """The statements that gradients of the tangent flow through: those whose tangents depend on
        values that are asked for, and those that these values come from."""
        asked, bent = self.reach.asked, set[Tensor]()
        for step in self.every:
            if self._bends(step) or not bent.isdisjoint(step.differentiable()):
                bent.update(tensor for tensor in step.makes if tensor.floating)
        tangents, values, found = set(losses(self.flow)), set[Tensor](), set[Step]()
        for step in reversed(self.every):
            if not bent.intersection(tangents).isdisjoint(step.makes):
                tangents.update(step.differentiable())
                values |= self._bends(step)
                found.add(step)
            if not values.isdisjoint(step.makes):
                values.update(asked.intersection(step.differentiable()))
                found.add(step)
        return frozenset(found)

    def _bends(self, step: Step) -> frozenset[Tensor]:
        """The values that are asked for and that a statement's tangent depends on."""
        if step.statement.op in STEPWISE:
            return frozenset()
        words = needed(step, self.reach.asked)
        read = (step.makes if word == "out" else step.reads.get(word, ()) for word in words)
        return self.reach.asked.intersection(tensor for some in read for tensor in some)

    @cached_property
    def held(self) -> frozenset[Step]:
        """The statements whose graph lives until backward: outputs come from them, or arguments of
        regions that save something."""
        ends = {*losses(self.flow), *self.flow.outputs}
        while True:
            held = self._reached(ends)
            more = {t for call in self._calls(held) for t in (*call.captured, *call.given)}
            if more <= ends:
                return held
            ends |= more

    @cached_property
    def void(self) -> frozenset[Tensor]:
        """The tensors without elements: what they hold is never other numbers."""
        case, void = self.flow.case, set[Tensor]()
        void.update(self.flow.given[a.name] for a in case.arrays if 0 in a.shape)
        for step in self.every:
            if without_elements(step.statement, (tensor in void for tensor in step.read())):
                void.update(step.makes)
        return frozenset(void)

    @cached_property
    def parameters(self) -> frozenset[Tensor]:
        """The parameters, and what a cast to the dtype that they have gives back."""
        found = {tensor for tensor in self.flow.given.values() if tensor.of == "parameter"}
        for step in self.every:
            dtype = step.statement.options["dtype"] if step.statement.op in CASTS else ""
            if any(t in found and t.dtype == dtype for t in step.read()):
                found.update(step.makes)
        return frozenset(found)

    @cached_property
    def degrees(self) -> Mapping[Tensor, float]:
        """What depends on tensors that are asked for, with its degree as a polynomial of these in
        pieces; `inf` for what is none."""
        found: dict[Tensor, float] = dict.fromkeys(self.reach.wanted, 1)
        for step in self.every:
            operation = OPERATIONS[step.statement.op]
            own = {n: max((found.get(t, 0) for t in r), default=0) for n, r in step.reads.items()}
            degrees = [0.0]
            for name in filter(own.get, operation.needs):
                words = operation.needs[name][0]
                if operation.name in STEPWISE or operation.random:
                    words = frozenset()
                bent = operation.name != "square" and words & {name, "out", "mask"}
                factors = sum(own.get(word, 0) for word in words)
                degrees.append(inf if bent else own[name] + factors)
            found.update(dict.fromkeys(step.makes, max(degrees)))
        return found

    @cached_property
    def shown(self) -> frozenset[Step]:
        """The statements that an output depends on."""
        ends, found = set(self.flow.outputs), set[Step]()
        for step in reversed(self.every):
            if not ends.isdisjoint(step.makes):
                ends.update(step.read())
                found.add(step)
        return frozenset(found)

    @cached_property
    def saving(self) -> frozenset[Call]:
        """The calls of regions that save something until backward."""
        return self._calls(self.held)

    @cached_property
    def again(self) -> frozenset[Call]:
        """The calls of regions that have saved what backward reads."""
        return self._calls(self.steps)

    def saved(self, step: Step) -> frozenset[str]:
        """Words for what a statement saves; none for a dropout of no elements, which is its argument."""
        empty = step.statement.op == "dropout" and not self.void.isdisjoint(step.makes)
        return frozenset() if empty else saved(step)

    def _calls(self, of: frozenset[Step]) -> frozenset[Call]:
        """The calls in which some of these statements save something. A region saves the arguments
        of one inside it that does."""
        found = {step.call for step in of if step.call is not None and self.saved(step)}
        for call in reversed(self.flow.calls):
            if call in found and call.around is not None and top(call):
                found.add(call.around)
        return frozenset(found)

    def inside(self, call: Call) -> Iterator[Step]:
        """The statements that ran in a call."""
        first = bisect_right(self.every, call.moment, key=_moment)
        yield from self.every[first : bisect_right(self.every, call.end, key=_moment)]

    def read(self, step: Step) -> Iterator[Tensor]:
        """The tensors that backward reads for the gradients of a statement."""
        for word in needed(step) if step in self.steps else ():
            yield from step.makes if word == "out" else step.reads.get(word, ())

    def unpacked(self, step: Step) -> Iterator[Tensor]:
        """The tensors that a statement has saved, if backward comes to it."""
        for word in self.saved(step) if step in self.steps else ():
            yield from step.makes if word == "out" else step.reads.get(word, ())

    def last(self, call: Call) -> Step | Call | None:
        """What is the last in a call to save something when it runs again: a statement, or a region its
        arguments. A rerun that saves more values comes to their number earlier."""
        saving: list[Step | Call] = []
        more = 0
        for item in call.items:
            values = len(self.saved(item) if isinstance(item, Step) else top(item))
            own = saved_more(item.statement.options) if values and isinstance(item, Step) else 0
            more += own
            saving += [item] * (values + own)
        return saving[-1 - more] if saving else None

    def stop(self, call: Call) -> int:
        """The moment before which all that a call has saved is computed again."""
        last = self.last(call)
        if isinstance(last, Step) and not self.saved(last).isdisjoint(("out", "mask")):
            return last.moment + 1
        return last.moment if last else 0

    def reads(
        self,
        call: Call,
        other: Callable[[Step], bool],
        tensors: Collection[Tensor] = (),
        *,
        stepwise: bool = False,
    ) -> bool:
        """Whether a gradient that is asked for reads, in a call, what comes from some tensors or from
        statements that give something else in a rerun. What a policy keeps is that of the forward
        pass, but for the mask of a dropout. What is the same for many values counts if it is
        `stepwise`: which element is largest, say."""
        changed = set(tensors) - self.void
        added = set(filter(self._added, changed))
        read = False
        for step in self.inside(call):
            if not self.void.isdisjoint((*step.read(), *step.makes)):
                continue
            own = other(step)
            operation = OPERATIONS[step.statement.op]
            given = [
                t for n, some in step.reads.items() if n not in operation.updates for t in some
            ]
            other_than_x = {t for n, some in step.reads.items() if n != "x" for t in some}
            alike = added - other_than_x if operation.name in CENTRED else set[Tensor]()
            if (own or not (changed - alike).isdisjoint(given)) and not kept(step):
                if operation.name in VIEWS and added.issuperset(given):
                    added.update(step.makes)
                changed.update(step.makes)
            if step in self.telling:
                words = needed(step, self.reach.asked)
                named = (step.makes if w == "out" else step.reads.get(w, ()) for w in words)
                counts = stepwise or operation.name not in STEPWISE
                depends = counts and any(not (changed - alike).isdisjoint(n) for n in named)
                read |= (own and bool(words)) or depends
        return read

    def _added(self, tensor: Tensor) -> bool:
        """Whether a tensor is changed only in that numbers are added to all its elements."""
        changes = (step for step in self.every if step.moment in tensor.changed)
        return bool(tensor.changed) and all(
            step.statement.op == "add_in_place" and not step.reads["b"] for step in changes
        )

    @cached_property
    def _redrawing(self) -> frozenset[str]:
        return redrawing(self.flow.case)

    def draws_again(
        self,
        call: Call,
        operations: Collection[str],
        *,
        early: bool = False,
        redrawn: bool = False,
    ) -> bool:
        """Whether a draw of one of these operations in a call runs again; with `early`, where a rerun
        ends at the last value that was saved; with `redrawn`, also one that may give other numbers."""
        stop = self.stop(call) if early else call.end + 1
        return call in self.again and any(
            step.statement.op in operations
            and step.moment < stop
            and self.void.isdisjoint(step.makes)
            and not kept(step)
            and (redrawn or not (step.call and step.call.region.name in self._redrawing))
            for step in self.inside(call)
        )


def kept(step: Step) -> bool:
    """Whether the policy of the region around a statement keeps its results."""
    return step.call is not None and step.call.region.saves(step.statement)


@lru_cache(maxsize=4)
def backward(flow: Flow) -> Backward:
    """What a framework with a tape saves and reads of a program."""
    return Backward(flow)


def overwritten(of: Backward, step: Step) -> bool:
    """Whether a tensor that a statement has saved is changed before backward."""
    updated = of.parameters if of.flow.case.procedure.between == "update" else ()
    return any(
        tensor in updated or any(moment > step.moment for moment in tensor.changed)
        for tensor in of.unpacked(step)
    )
