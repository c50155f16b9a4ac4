"""What a framework with a tape saves of a program for backward, and what it reads of that: the statements and
the regions that save something, where a region stops running again, and which draws it repeats.

Where the gradient of an operation can be written in several ways, the first of `OPERATIONS` is taken.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import combinations

from conformance.language.flow import Call, Flow, Step, Tensor
from conformance.language.operations import OPERATIONS, RANDOM
from conformance.language.reach import steps
from conformance.model.case import Ref, Statement, leaves

#: Operations that draw from the framework's global generator, and those that draw from others.
GLOBAL = frozenset({"dropout", "uniform", "rrelu"})
OTHERS = RANDOM - GLOBAL


def _moment(step: Step) -> int:
    return step.moment


@lru_cache(maxsize=8192)
def needed(step: Step) -> frozenset[str]:
    """Words for what the gradients of a statement need: arguments by name, `out` and `mask`. Literals
    are left out."""
    needs = OPERATIONS[step.statement.op].needs
    asking = (name for name, given in step.reads.items() if any(t.asks for t in given))
    words = frozenset(word for name in asking if name in needs for word in needs[name][0])
    return frozenset(w for w in words if w in ("out", "mask") or step.reads[w])


def top(call: Call) -> tuple[Tensor, ...]:
    """The tensors that are arguments of a call by themselves, not in a container and not by name."""
    alone = {tree.name for tree in call.region.takes if isinstance(tree, Ref)}
    names = zip(leaves(call.region.takes), call.given, strict=False)
    return tuple(tensor for name, tensor in names if name in alone and tensor.of != "value")


class Backward:
    """A backward pass over the program of a case, from its losses."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        #: All statements as they ran.
        self.every = tuple(steps(flow.items))
        losses = (flow.case.loss, flow.case.then)
        self._ends = [flow.names[loss.name] for loss in losses if loss is not None]
        #: The statements that gradients flow through.
        self.steps = self._reached(self._ends)

    def _reached(self, ends: Iterable[Tensor]) -> frozenset[Step]:
        """The statements that gradients flow through from these tensors."""
        reached = {tensor for tensor in ends if tensor.asks}
        found: set[Step] = set()
        for step in reversed(self.every):
            if not reached.isdisjoint(step.makes):
                reached |= {tensor for tensor in step.differentiable() if tensor.asks}
                found.add(step)
        return frozenset(found)

    @cached_property
    def held(self) -> frozenset[Step]:
        """The statements whose graph lives until backward: outputs come from them, or arguments of
        regions that save something."""
        ends = {*self._ends, *self.flow.outputs}
        while True:
            held = self._reached(ends)
            kept = [call for call in self._calls(held) if call.around is None]
            more = {tensor for call in kept for tensor in (*call.given, *call.captured)}
            if more <= ends:
                return held
            ends |= more

    @cached_property
    def saving(self) -> frozenset[Call]:
        """The calls of regions that save something until backward."""
        return self._calls(self.held)

    @cached_property
    def again(self) -> frozenset[Call]:
        """The calls of regions that have saved what backward reads."""
        return self._calls(self.steps)

    def _calls(self, of: frozenset[Step]) -> frozenset[Call]:
        """The calls in which some of these statements save something. A region saves the arguments of one
        inside it that does."""
        found = {step.call for step in of if step.call is not None and needed(step)}
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

    def last(self, call: Call) -> Step | Call | None:
        """What is the last in a call to save something: a statement, or a region its arguments."""
        saving = (i for i in call.items if (needed(i) if isinstance(i, Step) else top(i)))
        return max(saving, key=lambda item: item.moment, default=None)

    def _stop(self, call: Call) -> int:
        """The moment before which all that a call has saved is computed again."""
        last = self.last(call)
        if isinstance(last, Step) and not needed(last).isdisjoint(("out", "mask")):
            return last.moment + 1
        return last.moment if last else 0

    def reads_drawn(self, call: Call, operations: Collection[str]) -> bool:
        """Whether backward reads, in a call, what comes from draws of these operations in it. What a
        policy keeps is that of the forward pass, but for the mask of a dropout."""
        drawn: set[Tensor] = set()
        read = False
        for step in self.inside(call):
            own = step.statement.op in operations
            given = any(not drawn.isdisjoint(tensors) for tensors in step.reads.values())
            if (own or given) and not kept(step):
                drawn.update(step.makes)
            masked = own and step in self.steps and "mask" in needed(step)
            read |= masked or any(tensor in drawn for tensor in self.read(step))
        return read

    def draws_again(self, call: Call, operations: Collection[str], *, early: bool = False) -> bool:
        """Whether a draw of one of these operations in a call runs again; with `early`, where a rerun
        ends at the last value that was saved."""
        stop = self._stop(call) if early else call.end + 1
        return call in self.again and any(
            step.statement.op in operations and step.moment < stop and not kept(step)
            for step in self.inside(call)
        )


def kept(step: Step) -> bool:
    """Whether the policy of the region around a statement keeps its results."""
    return step.call is not None and step.call.region.saves(step.statement)


@lru_cache(maxsize=4)
def backward(flow: Flow) -> Backward:
    """What a framework with a tape saves and reads of a program."""
    return Backward(flow)


def _saved_changed(of: Backward, call: Call) -> bool:
    return any(
        step.moment < moment <= call.end
        for step in of.inside(call)
        for tensor in of.read(step)
        for moment in tensor.changed
    )


def _after_kept(of: Backward, call: Call) -> bool:
    draws = [step for step in of.inside(call) if step.statement.op in GLOBAL]
    return any(kept(before) and not kept(after) for before, after in combinations(draws, 2))


def _overwrites(of: Backward, call: Call) -> bool:
    written = (s.statement for s in of.inside(call))
    in_place = (s for s in written if OPERATIONS[s.op].capability == "in-place")
    return any(statement.names()[0] in call.region.captured() for statement in in_place)


#: Features of a region, by its calls: what they mean, and the condition.
OF_CALLS: Mapping[str, tuple[str, Callable[[Backward, Call], bool]]] = {
    "runs-again": ("backward reads what a region has saved", lambda b, c: c in b.again),
    "global-draw-read": (
        "backward reads, in a region, what it draws from the framework's global generator",
        lambda b, c: b.reads_drawn(c, GLOBAL),
    ),
    "other-draw-read": (
        "backward reads, in a region, what it draws from another generator",
        lambda b, c: b.reads_drawn(c, OTHERS),
    ),
    "other-draw-again": (
        "a region that runs again draws from another generator than the framework's global one",
        lambda b, c: b.draws_again(c, OTHERS),
    ),
    "other-draw-early": (
        "the same, and the draw comes before the last value that the region has saved for backward",
        lambda b, c: b.draws_again(c, OTHERS, early=True),
    ),
    "draw-after-kept-draw": (
        "a region draws from the global generator after a draw that its policy keeps",
        _after_kept,
    ),
    "saved-changed": (
        "a region changes a tensor in place that one of its statements has saved for backward",
        _saved_changed,
    ),
    "saved-read-twice": (
        "a function with its own gradient in a region reads twice what it has saved",
        lambda b, c: any(step.statement.options.get("reads", 1) != 1 for step in b.inside(c)),
    ),
    "captured-overwritten": ("a region writes over a tensor that it reads by closure", _overwrites),
    "captured-from-around": (
        "a region inside another one reads by closure what that one has computed",
        lambda b, c: c.around is not None and any(c.around.moment < t.moment for t in c.captured),
    ),
}
#: Features of a case.
OF_CASES: Mapping[str, tuple[str, Callable[[Backward], bool]]] = {
    "inner-regions-save": (
        "more calls of regions save something for backward than there are calls of outermost regions",
        lambda b: len(b.saving) > sum(call.around is None for call in b.flow.calls),
    ),
}


def last_saved(flow: Flow, call: Call) -> Statement | None:
    """The statement that is the last in a call to save something; `None` for a region."""
    last = backward(flow).last(call)
    return last.statement if isinstance(last, Step) else None
