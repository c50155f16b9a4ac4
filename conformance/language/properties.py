"""Features of a region beyond what a variant may lack, seen over all of its calls: where it is, its
arguments and results, which operations are where. Known deviations name them; `case_properties` has
those of a case as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from conformance.language import as_operation, hooking
from conformance.language.backward import Backward, backward
from conformance.language.backward_features import OF_CALLS
from conformance.language.containers import CONTAINERS
from conformance.language.flow import Call, Flow, Step, themselves
from conformance.language.operations import OPERATIONS, RANDOM, VIEWS
from conformance.language.place import (
    LINEAR,
    Place,
    bypassed,
    changed_after_read,
    contains,
    dead,
    defaults,
    from_region,
    in_graph,
    kept,
    left_of_argument,
    literal_of,
    looked_up,
    number_read,
    one_gradient,
    others,
    reads,
    result_read,
    stopped_first,
    takes,
    top,
)
from conformance.language.reach import active, needs_rerun, steps, told
from conformance.model.case import (
    Again,
    Case,
    Generator,
    Statement,
    leaves,
    walk,
)

Shows = Callable[[Place], bool]


def _of_calls(shows: Callable[[Backward, Call], bool], place: Place) -> bool:
    return any(shows(backward(place.flow), call) for call in place.calls)


def _trains(place: Place, kind: str = "") -> bool:
    case, given = place.flow.case, place.flow.given
    changed = [c.name for each in case.procedure.changes for c in each if c.kind == kind]
    trained = {
        given[p.name] for p in case.parameters if p.gradient and (p.name in changed or not kind)
    }
    return any(
        not trained.intersection(call.captured).isdisjoint(step.differentiable())
        for call in place.calls
        for step in place.reach.telling.steps.intersection(steps(call.items))
    )


def _of_model(place: Place) -> bool:
    """Whether a model could hold the region, made once: neither it, nor what is around it or called by
    it, reads anything by closure but parameters, state and generators."""
    case = place.flow.case
    inputs = (value.name for value in case.inputs if isinstance(value, Generator))
    held = {array.name for array in (*case.parameters, *case.state)}.union(inputs)
    regions = {region.name: region for region in case.regions()}
    around = [r for r in regions.values() if any(n is place.region for n in walk(r.body))]
    waiting, seen = [place.region, *around], set[str]()
    while waiting:
        region = waiting.pop()
        if region.name not in seen:
            seen.add(region.name)
            waiting += [regions[n.region] for n in walk(region.body) if isinstance(n, Again)]
    return all(held.issuperset(regions[name].captured()) for name in seen)


#: Features of a region: what they mean, and the condition.
REGION: Mapping[str, tuple[str, Shows]] = {
    "captures-input": (
        "a region reads an input of the program by closure",
        lambda p: any(t.of == "input" for t in p.captured),
    ),
    "of-model": (
        "a region, those around it and those that it calls read by closure only parameters, state and "
        "generators",
        _of_model,
    ),
    "captures-nothing": (
        "a region reads no tensor by closure",
        lambda p: not any(t.of != "value" for t in p.captured),
    ),
    "captures-requires-gradient": (
        "a region reads a tensor by closure that requires a gradient",
        lambda p: any(t.asks for t in p.captured),
    ),
    "captures-trained": (
        "a region reads a parameter by closure that requires a gradient",
        lambda p: any(t.of == "parameter" and t.asks for t in p.captured),
    ),
    "trains-captured": (
        "a parameter that a region reads by closure has a gradient that passes through the region",
        _trains,
    ),
    "trains-unfrozen": (
        "the same, of a parameter that is unfrozen between two steps",
        lambda p: _trains(p, kind="unfreeze"),
    ),
    "captured-computed-requires-gradient": (
        "a region reads by closure a tensor that the program has computed and that requires a gradient",
        lambda p: any(t.asks and t.of == "computed" for t in p.captured),
    ),
    "captures-frozen": (
        "a region reads a parameter by closure that is frozen",
        lambda p: any(t.of == "parameter" and not t.asks for t in p.captured),
    ),
    "captured-changed-after": (
        "a tensor that a region reads by closure is changed in place after the region has run",
        lambda p: any(m > c.end for c in p.calls for t in c.captured for m in t.changed),
    ),
    "captured-changed-inside": (
        "a region changes a tensor in place that it reads by closure",
        lambda p: any(
            c.moment < m <= c.end for c in p.calls for t in c.captured for m in t.changed
        ),
    ),
    "argument-changed-after": (
        "an argument of a region is changed in place after the region has run",
        lambda p: any(m > c.end for c in p.calls for t in c.given for m in t.changed),
    ),
    "argument-changed-inside": (
        "a region changes one of its arguments in place",
        lambda p: any(c.moment < m <= c.end for c in p.calls for t in c.given for m in t.changed),
    ),
    "changes-in-place": (
        "a region changes a tensor in place",
        lambda p: any(OPERATIONS[s.op].capability == "in-place" for s in p.statements),
    ),
    "no-arguments": ("a region takes no tensors", lambda p: not leaves(p.region.takes)),
    "same-argument-twice": (
        "a region is given one tensor as two arguments",
        lambda p: any(len(themselves(c.given)) < len(c.given) for c in p.calls),
    ),
    "unused-argument": (
        "a region takes a tensor that it does not read",
        lambda p: any(
            not any(c.moment < at <= c.end for at, _ in t.reads)
            and t.itself not in themselves(c.results)
            for c in p.calls
            for t in c.given
        ),
    ),
    "argument-without-gradient": (
        "a region takes a floating tensor that requires no gradient",
        lambda p: any(t.floating and not t.asks for t in p.given),
    ),
    "integer-argument": (
        "a region takes a tensor of integers or bools",
        lambda p: any(t.of != "value" and not t.floating for t in p.given),
    ),
    "bool-argument": (
        "a region takes a tensor of bools, not by name",
        lambda p: any(
            t.dtype == "bool"
            for c in p.calls
            for t, _ in zip(c.given, leaves(p.region.takes), strict=False)
        ),
    ),
    "argument-computed": (
        "a region takes a tensor that the program has computed",
        lambda p: any(t.of == "computed" for t in p.given),
    ),
    "no-top-level-argument-requires-gradient": (
        "no argument of a region requires a gradient, other than inside a tuple or dict, or by name",
        lambda p: any(
            not any(
                t.asks
                for t, name in zip(c.given, leaves(p.region.takes), strict=False)
                if name in top(p.region.takes)
            )
            for c in p.calls
        ),
    ),
    "no-argument-requires-gradient": (
        "no argument of a region requires a gradient",
        lambda p: any(not any(t.asks for t in c.given) for c in p.calls),
    ),
    "nothing-requires-gradient": (
        "nothing that goes into a region requires a gradient",
        lambda p: not p.depends(),
    ),
    "dead-code-in-region": ("a region computes something that nothing reads", dead),
    "unused-result": (
        "a result of a region is read by nothing",
        lambda p: any(
            not any(at > c.end for at, _ in t.reads) and t not in p.flow.outputs
            for c in p.calls
            for t in c.results
        ),
    ),
    "result-is-argument": (
        "a region returns one of its arguments as it is",
        lambda p: any(themselves(c.results) & themselves(c.given) for c in p.calls),
    ),
    "result-is-captured": (
        "a region returns a tensor as it is that it reads by closure",
        lambda p: any(themselves(c.results) & themselves(c.captured) for c in p.calls),
    ),
    "returns-parameter": (
        "a region returns a parameter as it is that it reads by closure",
        lambda p: any(
            t.of == "parameter" and t.asks
            for c in p.calls
            for t in themselves(c.results) & themselves(c.captured)
        ),
    ),
    "given-not-put-out": (
        "a tensor that goes into a region is no output of the program",
        lambda p: any(
            t.of != "value" and t.itself not in themselves(p.flow.outputs)
            for t in (*p.given, *p.captured)
        ),
    ),
    "returns-leaf": (
        "a region returns as it is a tensor that it reads by closure, that the program starts from and "
        "that requires a gradient",
        lambda p: any(
            t.of in ("input", "parameter") and t.asks
            for c in p.calls
            for t in themselves(c.results) & themselves(c.captured)
        ),
    ),
    "result-twice": (
        "a region returns one tensor as two results",
        lambda p: any(len(themselves(c.results)) < len(c.results) for c in p.calls),
    ),
    "returns-view": (
        "a result of a region is a view that it has made, or a concatenation: the tensor itself where "
        "nothing changes",
        lambda p: any(
            t.maker is not None and t.maker.op in {*VIEWS, "concat"} and p.inside(t)
            for t in p.results
        ),
    ),
    "stopped-before-result": (
        "a region returns, before another result, what `stop_gradient` makes in it, or a view of that",
        lambda p: any(map(stopped_first, p.calls)),
    ),
    "several-results": (
        "a region returns two tensors or more",
        lambda p: len(leaves(p.region.returns)) > 1,
    ),
    "result-without-gradient": (
        "a floating result of a region requires no gradient",
        lambda p: any(t.floating and not t.asks for t in p.results),
    ),
    "integer-result": (
        "a region returns a tensor of integers or bools",
        lambda p: any(t.of != "value" and not t.floating for t in p.results),
    ),
    **CONTAINERS,
    "called-twice": ("a region is called twice or more", lambda p: len(p.calls) > 1),
    "nested-inside": (
        "a region inside another one",
        lambda p: any(c.around is not None for c in p.calls),
    ),
    "nested-twice": (
        "a region inside a region inside another one",
        lambda p: any(c.depth > 1 for c in p.calls),
    ),
    "draw-in-nested-region": (
        "a region inside this one draws random numbers",
        lambda p: any(
            s.op in RANDOM
            for c in p.calls
            for i in c.within()
            if i is not c
            for s in i.statements()
        ),
    ),
    "draws-itself": (
        "a region draws random numbers other than in regions inside it",
        lambda p: any(s.op in RANDOM for s in p.own()),
    ),
    "keeps-what-its-own-gradient-reads": (
        "a policy keeps the result of an operation whose gradient reads that result",
        lambda p: any(
            p.region.saves(step.statement)
            and any(
                "out" in way
                for ways in OPERATIONS[step.statement.op].needs.values()
                for way in ways
            )
            for c in p.calls
            for step in p.reach.needed.steps.intersection(steps(c.items))
        ),
    ),
    "keeps-complex": (
        "a policy keeps the result of an operation, which is complex",
        lambda p: any(
            tensor.dtype == "complex"
            for c in p.calls
            for item in c.items
            if isinstance(item, Step) and p.region.saves(item.statement)
            for tensor in item.makes
        ),
    ),
    "saved-read-twice": (
        "a function in a region has a gradient of its own, which reads what it has saved twice",
        lambda p: any(s.options.get("reads", 1) != 1 for s in p.statements),
    ),
    "unseeded-draw": (
        "a region draws random numbers without a seed of the operation's own",
        lambda p: any(s.options.get("seed") is None for s in p.draws),
    ),
    "draws-twice": ("a region draws random numbers twice", lambda p: len(p.draws) > 1),
    "draw-first": (
        "the first statement of a region draws random numbers",
        lambda p: p.statements[:1] == p.draws[:1] != (),
    ),
    "draw-last": (
        "the last statement of a region draws random numbers",
        lambda p: p.statements[-1:] == p.draws[-1:] != (),
    ),
    "only-linear": (
        "no operation of a region needs a value of the forward pass for its gradient",
        lambda p: all(s.op in LINEAR for s in p.statements),
    ),
    "starts-the-program": (
        "a region takes tensors that the program starts from, and none that it has computed",
        lambda p: all(t.of != "computed" for t in p.given),
    ),
    "ends-the-program": (
        "a result of a region is an output of the program",
        lambda p: any(t in p.flow.outputs for t in p.results),
    ),
    "after-region": (
        "a region takes what another one has returned, directly",
        lambda p: any(from_region(p, t) for t in p.given),
    ),
    "before-region": (
        "another region takes what a region has returned, directly",
        lambda p: any(isinstance(item, Call) for item in p.after()),
    ),
    "constant-after-region": (
        "a result of a region meets a literal in the statement after it",
        lambda p: any(literal_of(item) for item in p.after()),
    ),
    "stops-gradient": (
        "a region stops a gradient",
        lambda p: any(s.op == "stop_gradient" for s in p.statements),
    ),
    "argument-read-outside": (
        "a tensor that a region takes is read outside of it, too",
        lambda p: any(
            not c.moment <= at <= c.end for c in p.calls for t in c.given for at, _ in t.reads
        ),
    ),
    "one-gradient": (
        "two tensors that go into a region have one gradient, as those of a sum",
        lambda p: any(map(one_gradient, p.calls)),
    ),
    "integer-read": (
        "a statement of a region reads an integer, no tensor, that the region takes by position",
        lambda p: number_read(p, int),
    ),
    "float-read": (
        "a statement of a region reads a float, no tensor, that the region takes by position",
        lambda p: number_read(p, float),
    ),
    "list-argument": ("a region takes a list of numbers", lambda p: takes(p, tuple)),
    "string-argument": ("a region takes a string", lambda p: takes(p, str)),
    "string-inside": (
        "a region takes a string inside a tuple or dict, or by name",
        lambda p: takes(p, str, inside=True),
    ),
    "bool-inside": (
        "a region takes a bool inside a tuple or dict, or by name",
        lambda p: takes(p, bool, inside=True),
    ),
    "gradient-by-closure": (
        "a gradient passes through a tensor that a region reads by closure and that is not "
        "a parameter, or a "
        "parameter that a region around it is given as an argument",
        lambda p: bypassed(p, by_name=False),
    ),
    "left-of-argument": (
        "a gradient comes to what a region leaves, which depends on a tensor that it takes by position, "
        "or on a parameter that it reads by closure",
        lambda p: any(left_of_argument(p.reach, call) for call in p.calls),
    ),
    "gradient-by-name": (
        "a gradient passes through a tensor that a region takes by name",
        lambda p: bypassed(p, by_name=True),
    ),
    "bypassed-told": (
        "as `gradient-by-closure` or `gradient-by-name`, and the tensor depends on one whose gradient "
        "the program returns, not only on parameters that it trains",
        lambda p: any(
            bypassed(p, by_name=named, of=active(p.flow, told(p.flow))) for named in (False, True)
        ),
    ),
    "in-graph": (
        "a positional argument of a region, or a parameter that it reads by closure, requires a "
        "gradient, and depends on a tensor that is differentiated, were each region one operation",
        in_graph,
    ),
    "looks-up-argument": (
        "a gradient comes to a lookup in the region itself, whose indices come from an argument",
        looked_up,
    ),
    "argument-also-captured": (
        "a region reads a tensor by closure that it is given as an argument, too",
        lambda p: any(
            t.asks for c in p.calls for t in themselves(c.captured) & themselves(c.given)
        ),
    ),
    "reached": (
        "a gradient passes through a region",
        lambda p: any(c in p.reach.needed.calls for c in p.calls),
    ),
    **as_operation.REGION,
    **hooking.REGION,
    "needs-rerun": (
        "a gradient in a region needs a value that the region computes and that no policy keeps",
        lambda p: any(needs_rerun(p.reach, c) for c in p.calls),
    ),
    "needs-inner-value": (
        "a gradient in a region needs a value that the region computes, does not return "
        "and no policy keeps",
        lambda p: any(needs_rerun(p.reach, c, inner=True) for c in p.calls),
    ),
    "gradient-reads-draw": (
        "a gradient in a region depends on random numbers that the region draws",
        lambda p: reads(p, draws=True),
    ),
    "gradient-reads-parameter": (
        "a gradient in a region depends on the values of parameters",
        lambda p: reads(p, parameters=True),
    ),
    "result-unreached": (
        "a gradient comes back to a result of a region, and none to another one",
        lambda p: any(
            c in r.calls and any(t.floating and t not in r.tensors for t in c.results)
            for c in p.calls
            for r in p.reach.passes
        ),
    ),
    "first-result-unreached": (
        "a gradient comes back to a result of a region, and none to its first one",
        lambda p: any(
            c in r.calls and c.results[:1] and c.results[0] not in r.tensors
            for c in p.calls
            for r in p.reach.passes
        ),
    ),
    "first-result-complex": (
        "the first result of a region is complex",
        lambda p: any(r.dtype == "complex" for c in p.calls for r in c.results[:1]),
    ),
    "dict-of-several": (
        "a region takes a dict or a named tuple with two tensors or values or more",
        lambda p: any(
            len(leaves(tree)) > 1
            for tree in (*p.region.takes, *p.region.kwargs.values())
            if contains(tree, Mapping)
        ),
    ),
    "gradient-reads-result": (
        "a gradient outside of regions depends on a result of a region",
        result_read,
    ),
    "result-without-loss": (
        "a result of a region could have a gradient, but no loss depends on it",
        lambda p: any(t.asks and t not in p.reach.asking.tensors for t in p.results),
    ),
    "changed-after-read": (
        "a region changes a tensor in place that one of its statements has read before",
        lambda p: any(changed_after_read(c) for c in p.calls),
    ),
    **{word: (means, partial(_of_calls, shows)) for word, (means, shows) in OF_CALLS.items()},
}


#: Families of features: `op:dropout`, say; the word after the colon, and what it means.
FAMILIES: Mapping[str, str] = {
    "op": "the operation is in the region, or in one inside it",
    "through": "the operation is in the region, or in one inside it, and a gradient passes through it",
    "own": "the operation is in the region itself",
    "hook-on": "a hook in the region, or in one inside it, is on the operation's result",
    "first": "the operation is the first of the region",
    "last": "a result of the region is the operation's",
    "keeps-last": "of the region's operations, it is the last whose gradient reads a value of forward",
    "argument-from": "an argument of the region is the operation's result",
    "result-to": "the operation reads a result of the region",
    "saves": "the region's policy keeps it",
    "dtype": "a tensor that the program starts from has this dtype",
    "procedure": "the procedure is this one",
    "between": "this happens between forward and backward",
    "around": "this setting holds around forward, and not around backward",
    "outside": "the operation is in the program, outside of regions",
    "last-saved": "the operation is the last in a region to save something, and the region runs again",
    "draws-early": "the operation draws in a region that runs again, before the last value it saves",
    "flows-through": "a gradient of all that require one flows through the operation, in the region",
    "keyword": "a call of the region gives an argument of this name by name",
    "keyword-reached": "a call that a gradient reaches as `reached-with-keywords` says gives it by name",
    "default-of": "the region's function has a default for its argument of this name",
    "other-than-default": "a call gives the argument of this name another value than its default",
    "changes": "a statement of the region does this when it is called again",
    "raises": "the program has to raise this error",
}
#: The families whose members are no operations.
NAMED = frozenset(
    {"dtype", "procedure", "between", "around", "keyword", "keyword-reached", "default-of"}
    | {"other-than-default"}
    | {"changes", "raises"}
)


def _passed(place: Place, keyword: str) -> bool:
    names = frozenset(leaves(place.region.kwargs[keyword]))
    return not names or any(names - call.left_out for call in place.calls)


def of_region(place: Place) -> Iterator[str]:
    """The features of a region."""
    yield from (word for word, (_, shows) in REGION.items() if shows(place))
    yield from (f"op:{s.op}" for s in place.statements)
    inside = [step for call in place.calls for step in steps(call.items)]
    asked = place.reach.needed.steps
    yield from (f"through:{step.statement.op}" for step in asked.intersection(inside))
    hooking = (step for step in inside if OPERATIONS[step.statement.op].hooks)
    on = (tensor.maker for step in hooking for tensor in step.read())
    yield from (f"hook-on:{maker.op}" for maker in on if maker)
    yield from (f"own:{s.op}" for s in place.own())
    yield from (f"first:{s.op}" for s in place.statements[:1])
    for tensor in place.results:
        if isinstance(tensor.maker, Statement) and place.inside(tensor):
            yield f"last:{tensor.maker.op}"
    yield from (f"keeps-last:{op}" for op in kept(place))
    for tensor in place.given:
        if isinstance(tensor.maker, Statement):
            yield f"argument-from:{tensor.maker.op}"
    yield from (f"result-to:{item.op}" for item in place.after() if isinstance(item, Statement))
    yield from (f"keyword:{name}" for name in place.region.kwargs if _passed(place, name))
    passes = place.reach.keyword_passes
    calls = tuple(c for c in place.calls if any(c in one.calls for one in passes))
    reached = replace(place, calls=calls)
    names = place.region.kwargs if calls else ()
    yield from (f"keyword-reached:{name}" for name in names if _passed(reached, name))
    yield from (f"default-of:{name}" for name in defaults(place))
    yield from (f"other-than-default:{name}" for name in others(place))
    yield from (f"saves:{s.op}" for s in place.own() if place.region.saves(s))
    of = backward(place.flow)
    last = (of.last(call) for call in place.calls if call in of.again)
    yield from (f"last-saved:{s.statement.op}" for s in last if isinstance(s, Step))
    drawing = partial(of.draws_again, early=True, redrawn=True)
    yield from (f"draws-early:{o}" for o in RANDOM if any(drawing(c, {o}) for c in place.calls))
    yield from (f"flows-through:{step.statement.op}" for step in inside if step in of.steps)
    yield from (f"changes:{s.options['then']}" for s in place.statements if "then" in s.options)


def places(flow: Flow, case: Case) -> tuple[Place, ...]:
    """The regions of a case that are called, with their calls."""
    return tuple(
        Place(flow, region, tuple(flow.of_region[region.name]))
        for region in case.regions()
        if region.name in flow.of_region
    )
