"""What a framework with a tape saves of a program for backward, and what it reads of that: the
statements and the regions that save something, where a region stops running again, and which draws
it repeats.

Where the gradient of an operation can be written in several ways, the first of `OPERATIONS` is taken.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache, partial
from itertools import combinations, product
from math import inf

from conformance.language.flow import Call, Flow, Step, Tensor, redrawing, without_elements
from conformance.language.operations import (
    CASTS,
    CENTRED,
    GLOBAL,
    OPERATIONS,
    OTHERS,
    SAVED,
    VIEWS,
    WRITTEN,
    saved_more,
)
from conformance.language.reach import STEPWISE, around, losses, reach, steps
from conformance.model.case import Generator, Ref, Value, leaves, node_makes, walk

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


def _draws(operations: Collection[str]) -> Callable[[Step], bool]:
    """Statements that draw with one of these operations, and without a seed of their own."""
    return lambda s: s.statement.op in operations and s.statement.options.get("seed") is None


def _unlike(*words: str) -> Callable[[Step], bool]:
    """Statements that compute something else when they are called again."""
    return lambda s: s.statement.op == "counted_sin" or s.statement.options.get("then") in words


def _shifted(of: Backward, call: Call) -> bool:
    """Whether a statement saves more when it is called again, and backward reads what is saved
    after it."""
    own = [item for item in call.items if isinstance(item, Step)]
    return any(
        before.statement.options.get("then") == "operations" and any(of.read(after))
        for before, after in combinations(own, 2)
    )


def _saved_changed(of: Backward, call: Call, *, stepwise: bool, early: bool = False) -> bool:
    stop = of.stop(call) if early else call.end + 1
    for item in call.items:
        if isinstance(item, Call):
            given = [t for t in top(item) if _changes(t, item.moment, stop)]
            found = of.reads(item, lambda _: False, given, stepwise=stepwise)
        else:
            found = (
                item in of.telling
                and (item.statement.op in STEPWISE) == stepwise
                and any(_changes(t, item.moment, stop) for t in set(of.read(item)) - of.void)
            )
        if found:
            return True
    return False


def _changes(tensor: Tensor, start: int, stop: int) -> bool:
    """Whether a tensor is changed in place between two moments."""
    return any(start < moment < stop for moment in tensor.changed)


def _result_changed(of: Backward, call: Call) -> bool:
    other = {"divide": "b", "max_pool2d": "x"}
    return any(
        step.moment < moment <= call.end
        for step in of.inside(call)
        if step in of.telling and step.statement.op in other
        if not of.reach.asked.isdisjoint(step.reads[other[step.statement.op]])
        for tensor in step.makes
        for moment in tensor.changed
    )


def _left_unread(of: Backward, call: Call) -> bool:
    saved = {step for step in of.inside(call) if step in of.held and of.saved(step)}
    passes = of.reach.passes if of.told else of.reach.asking_passes
    return any(saved & one.steps and saved - one.steps for one in passes)


def overwritten(of: Backward, step: Step) -> bool:
    """Whether a tensor that a statement has saved is changed before backward."""
    updated = of.parameters if of.flow.case.procedure.between == "update" else ()
    return any(
        tensor in updated or any(moment > step.moment for moment in tensor.changed)
        for tensor in of.unpacked(step)
    )


def _reads_batched(of: Backward, call: Call) -> bool:
    """Whether a rerun of a mapped call comes to a statement that reads what comes from its arguments."""
    last = of.last(call)
    batched = set(call.given)
    for step in of.inside(call):
        read = not batched.isdisjoint(tensor for some in step.reads.values() for tensor in some)
        if read and last is not None and step.moment <= last.moment:
            return call.region.mapped and call in of.again
        batched.update(step.makes if read else ())
    return False


def _after_kept(of: Backward, call: Call) -> bool:
    draws = [step for step in of.inside(call) if step.statement.op in GLOBAL]
    return any(kept(before) and not kept(after) for before, after in combinations(draws, 2))


def _overwritten(call: Call, tensors: Iterable[Tensor]) -> list[Tensor]:
    return [t for t in tensors if any(moment > call.moment for moment in t.changed)]


def _autocast(flow: Flow, step: Step) -> tuple[Call | None, str]:
    """The outermost call that enters autocast around a statement, `None` for the program itself, and the
    dtype that the innermost one casts to; empty for none."""
    entering = [call for call in around(step) if call.region.autocast]
    dtype = entering[0].region.autocast if entering else flow.case.autocast
    return (None if flow.case.autocast or not entering else entering[-1]), dtype


def _cast_before(of: Backward, call: Call) -> bool:
    """Whether a call comes to a cast that one to another dtype before it, under the same autocast, is
    found for."""
    casts = [step for step in of.every if OPERATIONS[step.statement.op].lowered]
    within, found = set(of.inside(call)), False
    for before, after in product(casts, within.intersection(casts)):
        (one, dtype), (other, own) = _autocast(of.flow, before), _autocast(of.flow, after)
        read = {t for t in before.differentiable() if t.asks and t.of in ("input", "parameter")}
        if before.moment < call.moment and one is other and "" != dtype != own != "":
            found = found or not read.isdisjoint(after.differentiable())
    return found


def _saves_twice(step: Step) -> bool:
    return step.statement.options.get("reads", 1) != 1


def _positional_constant(backward: Backward, call: Call) -> bool:
    flow = backward.flow
    values = (value for value in flow.case.inputs if isinstance(value, Value))
    fitting = [flow.given[v.name] for v in values if isinstance(v.value, str | bool | tuple)]
    alone = {tree.name for tree in call.region.takes if isinstance(tree, Ref)}
    names = zip(leaves(call.region.takes), call.given, strict=False)
    return any(name in alone and given in fitting for name, given in names)


def _reads_outer(backward: Backward, call: Call) -> bool:
    def own(one: Call) -> set[str]:
        made = (name for node in walk(one.region.body) for name in node_makes(node))
        return {*leaves(one.region.takes), *leaves(one.region.kwargs), *made}

    read = {name for one in call.within() for name in one.region.captured()}
    names = read.difference(*map(own, around(call)))
    keys = (v for v in backward.flow.case.inputs if isinstance(v, Generator))
    arrays = {n for n, t in backward.flow.handles.items() if t.of != "value"}
    return not names.isdisjoint(arrays.union(k.name for k in keys if k.library == "framework"))


def _settings(of: Backward, call: Call) -> Callable[[Step], bool]:
    """Statements that read what a region made once reads by closure and that changes between steps."""
    procedure = of.flow.case.procedure
    changes = (c for each in procedure.changes for c in each if procedure.made == "once")
    names = {change.name for change in changes if change.kind == "set"}
    captured = {of.flow.given[name] for name in names}.intersection(call.captured)
    return lambda step: not captured.isdisjoint(step.read())


_Chosen = Callable[[Backward, Call], Iterable[Tensor] | Callable[[Step], bool]]
#: Features of a region by what backward reads in it: the end of what they mean, and the tensors that go
#: into a call, or the statements in it, that are meant.
_READ: Mapping[str, tuple[str, _Chosen]] = {
    "global-draw-read": (
        "what it draws from the framework's global generator",
        lambda b, c: _draws(GLOBAL),
    ),
    "other-draw-read": ("what it draws from another generator", lambda b, c: _draws(OTHERS)),
    "explicit-draw-read": (
        "what it draws from a generator that it is given",
        lambda b, c: _draws({"uniform_from"}),
    ),
    "other-values-read": (
        "what has other values when the region runs again",
        lambda b, c: _unlike("values"),
    ),
    "other-operations-read": (
        "what comes from other operations when the region runs again",
        lambda b, c: _unlike("values", "operations", "product"),
    ),
    "captured-setting-read": (
        "what depends on an input that it reads by closure and that changes between two steps, and the "
        "region is made once",
        _settings,
    ),
    "inner-operations-read": (
        "what comes from other operations, in a region inside it, when the region runs again",
        lambda b, c: [
            t
            for s in b.inside(c)
            if s.call is not c and s.statement.options.get("then") == "operations"
            for t in s.makes
        ],
    ),
    "switch-read": (
        "what depends on the switch that can be turned before backward",
        lambda b, c: _draws({"switched_sin"}),
    ),
    "switched-read": (
        "what comes from a result that depends on the switch",
        lambda b, c: [t for s in b.inside(c) if s.statement.op == "switched_sin" for t in s.makes],
    ),
    "captured-parameter-read": (
        "what comes from a parameter that it reads by closure, takes by name or in a container",
        lambda b, c: [t for t in by_reference(c) if t.of == "parameter"],
    ),
    "given-parameter-read": (
        "what comes from a parameter that is an argument of the region",
        lambda b, c: [t for t in c.given if t.of == "parameter"],
    ),
    "overwritten-read": (
        "what comes from a tensor that it reads by closure, takes by name or in a container, and that "
        "is written over then or later",
        lambda b, c: _overwritten(c, by_reference(c)),
    ),
    "given-overwritten-read": (
        "what comes from an argument of the region that is written over then or later",
        lambda b, c: _overwritten(c, c.given),
    ),
    "asked-read": (
        "what comes from a tensor that goes into it and depends on those whose gradients are asked for",
        lambda b, c: b.reach.asked.intersection((*c.given, *c.captured)),
    ),
}


def _of_read() -> Iterator[tuple[str, tuple[str, Callable[[Backward, Call], bool]]]]:
    """The features of `_READ`, and for each one that ends in `decides`: it also holds where backward
    only reads which elements are largest or positive."""
    for word, (of, chosen) in _READ.items():
        decides = f"{word.removesuffix('read')}decides"
        means = f"as `{word}`, or which of the elements that come from it are largest or positive"
        yield word, (f"backward reads, in a region, {of}", partial(_reads, chosen, stepwise=False))
        yield decides, (means, partial(_reads, chosen, stepwise=True))


def _reads(chosen: _Chosen, of: Backward, call: Call, *, stepwise: bool) -> bool:
    found = chosen(of, call)
    if callable(found):
        return of.reads(call, found, stepwise=stepwise)
    return of.reads(call, lambda _: False, frozenset(found), stepwise=stepwise)


def _later_unreached(backward: Backward, call: Call) -> bool:
    reached = {one for each in backward.reach.keyword_passes for one in each.calls}
    later = (c for c in backward.flow.of_region[call.region.name] if c.moment > call.moment)
    given = [tensor for tensor in call.given if tensor.of != "value"]
    read = backward.reads(call, lambda _: False, given)
    return call in reached and read and not reached.issuperset(later)


#: Features of a region, by its calls: what they mean, and the condition.
OF_CALLS: Mapping[str, tuple[str, Callable[[Backward, Call], bool]]] = {
    "runs-again": ("backward reads what a region has saved", lambda b, c: c in b.again),
    **dict(_of_read()),
    "other-draw-again": (
        "a region that runs again draws from another generator than the framework's global one",
        lambda b, c: b.draws_again(c, OTHERS),
    ),
    "other-draw-early": (
        "the same, and the draw comes before the last value that the region has saved for backward",
        lambda b, c: b.draws_again(c, OTHERS, early=True),
    ),
    "explicit-draw-again": (
        "a region that runs again draws from a generator that it is given",
        lambda b, c: b.draws_again(c, {"uniform_from"}),
    ),
    "draw-after-kept-draw": (
        "a region draws from the global generator after a draw that its policy keeps",
        _after_kept,
    ),
    "saved-after-others": (
        "a region saves more values when it runs again, and backward reads one that comes after them",
        _shifted,
    ),
    "saved-changed": (
        "a region changes a tensor in place that one of its statements has saved for backward, or that "
        "a region inside it is given",
        lambda b, c: _saved_changed(b, c, stepwise=False),
    ),
    "saved-changed-decides": (
        "the same, and backward only reads which of its elements are largest or positive",
        lambda b, c: _saved_changed(b, c, stepwise=True),
    ),
    "saved-changed-early": (
        "as `saved-changed`, and the change comes before the last value that the region has saved",
        lambda b, c: _saved_changed(b, c, stepwise=False, early=True),
    ),
    "saved-changed-early-decides": (
        "as `saved-changed-decides`, and the change comes before the last value that the region has "
        "saved",
        lambda b, c: _saved_changed(b, c, stepwise=True, early=True),
    ),
    "result-changed": (
        "a region changes in place the result of a quotient or of a maximum in windows, which their "
        "gradients may be computed from",
        _result_changed,
    ),
    "left-unread": (
        "a backward pass reads a part of what a region has saved, and outputs hold another part",
        _left_unread,
    ),
    "saved-read-twice": (
        "a function with its own gradient in a region reads twice what it has saved",
        lambda b, c: any(_saves_twice(step) and step in b.steps for step in b.inside(c)),
    ),
    "third-degree": (
        "a loss depends on a result of a region that is other than a polynomial, in pieces, of at most "
        "second degree of the tensors whose gradients are asked for",
        lambda b, c: any(b.degrees.get(t, 0) > 2 for t in b.reach.needed.tensors & {*c.results}),
    ),
    "saves-view": (
        "a function with its own gradient in a region saves a view, or a part of a complex tensor",
        lambda b, c: any(
            t.maker is not None and (t.maker.op in VIEWS or OPERATIONS[t.maker.op].parts)
            for step in b.inside(c)
            if step.statement.op in WRITTEN
            for t in b.unpacked(step)
        ),
    ),
    "given-by-reference": (
        "a region inside another one saves something for backward, and reads what the outermost one has "
        "computed by closure, takes it by name or in a container",
        lambda b, c: (
            c.around is not None
            and c in b.saving
            and any(outermost(c).moment < tensor.moment for tensor in by_reference(c))
        ),
    ),
    "cast-before": (
        "a region reads a tensor in low precision that autocast to another dtype, around the one in the "
        "region, has cast before",
        _cast_before,
    ),
    "contexts-shown": (
        "an output depends on an operation that computes something else outside of a region's contexts",
        lambda b, c: any(
            OPERATIONS[step.statement.op].within == "contexts" and step in b.shown
            for step in b.inside(c)
        ),
    ),
    "captured-setting-shown": (
        "an output depends on an input that a region made once reads by closure and that changes "
        "between two steps",
        lambda b, c: any(map(_settings(b, c), b.shown.intersection(b.inside(c)))),
    ),
    "constant-argument": (
        "a string, a bool or a list of numbers is a positional argument of a region",
        _positional_constant,
    ),
    "reads-outer": (
        "a region reads by closure a tensor, or a generator or key of the framework, that no region "
        "around it has computed or takes",
        _reads_outer,
    ),
    "later-call-unreached": (
        "backward reads, in a region, what comes from its arguments, and a gradient reaches this call "
        "and not a later one, as `reached-with-keywords` says",
        _later_unreached,
    ),
    "mapped-argument-read": (
        "a region that is mapped runs again, and comes to a statement that reads its arguments",
        _reads_batched,
    ),
}
#: Features of a case.
OF_CASES: Mapping[str, tuple[str, Callable[[Backward], bool]]] = {
    "saved-overwritten": (
        "a tensor that backward reads is written over after it was saved",
        lambda b: any(overwritten(b, step) for step in b.steps),
    ),
    "graph-left": (
        "outputs hold what a statement has saved, in a region or outside, which no backward pass reads",
        lambda b: any(needed(s) for s in b.held - b.steps),
    ),
    "inner-regions-save": (
        "more calls of regions save something for backward than there are calls of "
        "outermost regions, of "
        "those that preserve the random state",
        lambda b: (
            sum(call.region.preserve_rng for call in b.saving)
            > sum(call.around is None and call.region.preserve_rng for call in b.flow.calls)
        ),
    ),
}
