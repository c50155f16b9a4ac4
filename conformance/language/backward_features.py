"""Features by what a framework with a tape saves of a program for backward, and reads of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import combinations, product

from conformance.language.backward import (
    Backward,
    by_reference,
    kept,
    needed,
    outermost,
    overwritten,
    top,
)
from conformance.language.flow import Call, Flow, Step, Tensor
from conformance.language.operations import GLOBAL, OPERATIONS, OTHERS, VIEWS, WRITTEN
from conformance.language.reach import STEPWISE, around
from conformance.model.case import Generator, Ref, Value, leaves, node_makes, walk


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


def _recast(of: Backward, call: Call) -> Iterator[tuple[Step, Call | None, Call | None, bool]]:
    """For each cast that a call comes to, those of the same tensor before it: the one before, the
    outermost autocast around each, and whether both are to one dtype."""
    casts = [step for step in of.every if OPERATIONS[step.statement.op].lowered]
    for before, after in product(casts, set(of.inside(call)).intersection(casts)):
        (one, dtype), (other, own) = _autocast(of.flow, before), _autocast(of.flow, after)
        read = {t for t in before.differentiable() if t.asks and t.of in ("input", "parameter")}
        shared = not read.isdisjoint(after.differentiable())
        if before.moment < after.moment and dtype and own and shared:
            yield before, one, other, dtype == own


def _cast_before(of: Backward, call: Call, *, alike: bool) -> bool:
    """Whether a call comes to a cast that one before it, under the same autocast, is found for: one to
    the same dtype or to another."""
    return any(
        before.moment < call.moment and one is other and same == alike
        for before, one, other, same in _recast(of, call)
    )


def _cast_beside(of: Backward, call: Call) -> bool:
    """Whether two autocasts in a call, one after the other, cast a tensor to different dtypes."""
    return any(
        before.moment > call.moment and one is not other and call not in (one, other) and not same
        for before, one, other, same in _recast(of, call)
    )


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
    return call in reached and not reached.issuperset(later)


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
    "after-last-saved": (
        "a region runs again, and statements in it follow what has saved last: a statement, or a region "
        "inside it that has saved its arguments",
        lambda b, c: (
            c in b.again
            and (last := b.last(c)) is not None
            and (isinstance(last, Call) or any(item.moment > last.moment for item in c.items))
        ),
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
        partial(_cast_before, alike=False),
    ),
    "cast-beside": (
        "two autocasts in a region, one after the other, cast a tensor to different dtypes",
        _cast_beside,
    ),
    "cast-shared": (
        "a region reads a tensor in low precision that the same autocast has cast before the region",
        partial(_cast_before, alike=True),
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
        "a gradient reaches a call of a region and not a later one, as `reached-with-keywords` says",
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
