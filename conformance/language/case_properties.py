"""Features of a case as a whole, beyond what a variant may lack. Known deviations name them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod

from conformance.language import nodes
from conformance.language.backward import Backward, backward
from conformance.language.backward_features import OF_CASES
from conformance.language.flow import Flow, draws_anew, returned
from conformance.language.operations import RANDOM
from conformance.language.place import FEWER, HALF, contains, may_cancel, of_one
from conformance.language.reach import reach, told
from conformance.model.case import Statement

OfCase = Callable[[Flow], bool]


def _sizes(flow: Flow) -> list[int]:
    return [prod(array.shape) for array in flow.case.arrays]


def _of_backward(shows: Callable[[Backward], bool]) -> OfCase:
    return lambda flow: shows(backward(flow))


#: Features of a case as a whole.
CASE: Mapping[str, tuple[str, OfCase]] = {
    "several-regions": (
        "a program has two regions or more, one beside the other",
        lambda f: len({c.region.name for c in f.calls if c.around is None}) > 1,
    ),
    "several-outputs": ("a program has two outputs or more", lambda f: len(f.outputs) > 1),
    "unused-tensor": (
        "a tensor that the program starts from and that requires a gradient is read by nothing",
        lambda f: any(t.asks and not t.reads for t in f.given.values()),
    ),
    "gradient-not-asked": (
        "a tensor requires a gradient that is not asked for",
        lambda f: any(t.asks and t not in reach(f).wanted for t in f.given.values()),
    ),
    "gradient-not-told": (
        "a tensor requires a gradient that the program does not return",
        lambda f: any(t.asks and t not in told(f) for t in f.given.values()),
    ),
    "frozen-tensor": (
        "an input or a parameter that could require a gradient requires none",
        lambda f: any(t.floating and not t.asks and t.of != "state" for t in f.given.values()),
    ),
    "integer-tensor": (
        "a program starts from a tensor of integers or bools",
        lambda f: any(t.of != "value" and not t.floating for t in f.given.values()),
    ),
    "shared-parameter": (
        "two statements read one parameter",
        lambda f: any(
            t.of == "parameter" and sum(isinstance(reader, Statement) for _, reader in t.reads) > 1
            for t in f.given.values()
        ),
    ),
    "draw-outside-regions": (
        "a program draws random numbers outside of regions",
        lambda f: any(s.op in RANDOM for s in f.outside),
    ),
    "few-elements": (
        "a tensor that the program starts from has fewer than eight elements, or a statement makes a "
        "tensor of fewer elements than it reads",
        lambda f: (
            any(size < 8 for size in _sizes(f))
            or any(s.op in FEWER for _, s in f.case.statements())
        ),
    ),
    "uneven": (
        "the largest tensor that the program starts from has more than twice the elements of the "
        "smallest one",
        lambda f: 2 * min(_sizes(f), default=0) < max(_sizes(f), default=0),
    ),
    "coarse": (
        "numbers of the program are compared as those of half precision are",
        lambda f: f.case.tolerance.rtol >= HALF,
    ),
    "draws-anew": (
        "a region draws that need not preserve the random state, or that is inside such a region",
        lambda f: draws_anew(f.case),
    ),
    "scalar": ("a tensor has no axes", lambda f: any(not a.shape for a in f.case.arrays)),
    "state": ("a program has state besides its parameters", lambda f: bool(f.case.state)),
    "transforming": (
        "the procedure is `jvp` or `jacobian`: it transforms a function",
        lambda f: f.case.procedure.kind in ("jvp", "jacobian"),
    ),
    "release": (
        "the procedure is repeated, to see what is left over",
        lambda f: f.case.release > 0,
    ),
    "kept-outputs": ("outputs are kept until the last repetition is over", lambda f: f.case.keeps),
    "expected-error": ("the program has to raise an error", lambda f: f.case.error is not None),
    "constant-of-itself": (
        "a statement takes the difference, the quotient or the maximum of a tensor and itself, or of "
        "what linear operations make of one tensor, or a part of a complex tensor: a gradient may be "
        "zero throughout",
        lambda f: any(may_cancel(s) for _, s in f.case.statements()) or of_one(f),
    ),
    "may-raise": (
        "the program may raise an error where it does so without recompute",
        lambda f: f.case.as_plain,
    ),
    "growth": ("a case is a point of a law of growth", lambda f: f.case.law is not None),
    "dict-output": (
        "a program returns a dict",
        lambda f: any(contains(tree, Mapping) for tree in returned(f.case)),
    ),
    "draws-in-several-regions": (
        "random numbers are drawn in two regions, one beside the other",
        lambda f: (
            len(
                {
                    c.region.name
                    for c in f.calls
                    if c.around is None and any(s.op in RANDOM for s in c.statements())
                }
            )
            > 1
        ),
    ),
    "zeros-as-operation": (
        "a tensor whose gradient is asked for has none, but has one of zeros where a gradient reaches "
        "regions as `reached-as-operation` says",
        lambda f: any(
            not told(f).isdisjoint(opaque.tensors - needed.tensors)
            for opaque, needed in zip(reach(f).opaque_passes, reach(f).passes, strict=True)
        ),
    ),
    "zeros-passed-as-operation": (
        "a tensor has a gradient of zeros only where a gradient reaches regions as "
        "`reached-as-operation` says",
        lambda f: any(
            opaque.tensors - needed.tensors
            for opaque, needed in zip(reach(f).opaque_passes, reach(f).passes, strict=True)
        ),
    ),
    "none-as-operation": (
        "a tensor has a gradient, but none where a gradient reaches regions as "
        "`reached-as-operation` says",
        lambda f: any(
            not told(f).isdisjoint(needed.tensors - opaque.tensors)
            for opaque, needed in zip(reach(f).opaque_passes, reach(f).passes, strict=True)
        ),
    ),
    "several-steps": ("training takes two steps or more", lambda f: f.case.procedure.steps > 1),
    **{word: (means, _of_backward(shows)) for word, (means, shows) in OF_CASES.items()},
    **nodes.FEATURES,
}


def of_case(flow: Flow) -> Iterator[str]:
    """The features of a case as a whole."""
    case = flow.case
    yield from (word for word, (_, shows) in CASE.items() if shows(flow))
    yield from (f"dtype:{array.dtype}" for array in case.arrays)
    yield f"procedure:{case.procedure.kind}"
    if case.procedure.between:
        yield f"between:{case.procedure.between}"
    if case.around:
        yield f"around:{case.around}"
    if case.error is not None:
        yield f"raises:{case.error.type}"
    yield from (f"outside:{s.op}" for s in flow.outside)
