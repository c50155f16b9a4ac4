"""Tensor parallelism: layers whose weights are split over the ranks, and what is split between them.

A layer of `columns` makes a tensor of which each rank has a part, and a layer of `rows` reads one and
sums over the ranks. All that a program returns is whole, and what it computes is what one rank would.
"""

from conformance.errors import CaseError
from conformance.language.flow import Flow, Step, Tensor
from conformance.language.operations import COLLECTIVES, RANDOM
from conformance.language.reach import losses, steps
from conformance.language.source import Source
from conformance.model.case import Case

_LAYER = "`linear(x, w, b)` reads it as its `w`"
_AXES = {"columns": 0, "rows": 1}


def check_split(source: Source, case: Case) -> None:
    """Raise `CaseError` for a program that cannot be split as the case says."""
    parameters = {array.name: array for array in case.parameters}
    for array in case.arrays:
        if array.by_rank:
            message = f"{array.name!r} is `by_rank`, and all ranks of a split program read the same"
            raise source.error(message, "parallel", key=True)
    if not case.seeded:
        raise source.error("ranks of a split program draw the same, by a seed", "seeded", key=True)
    for name, way in case.split.items():
        path = ("parallel", "tensor", name)
        source.refuse_other(name, parameters, f"no parameter is named {name!r}", *path, key=True)
        for size in parameters[name].shape[_AXES[way] :][:1]:
            if size % case.ranks:
                message = f"{case.ranks} ranks do not divide the {size} {way} of {name!r}"
                hint = (
                    "`linear` multiplies by the transpose: a weight of shape [8, 6] has 8 columns"
                )
                raise source.error(message, *path, hint=hint)
    flow = Flow(case)
    weights = {flow.given[name]: name for name in case.split}
    parts: set[Tensor] = set()
    for step in steps(flow.items):
        if _is_part(step, case, weights, parts):
            parts.update(step.makes)
    read = {t for step in steps(flow.items) for t in step.read()}
    for tensor, name in weights.items():
        if tensor not in read:
            message = f"no layer reads {name!r}"
            raise source.error(message, "parallel", "tensor", name, hint=_LAYER, key=True)
    if not parts.isdisjoint((*flow.outputs, *losses(flow))):
        hint = "a layer of `rows` makes it whole"
        raise source.error("an output is split over the ranks", "parallel", hint=hint, key=True)


def _is_part(step: Step, case: Case, weights: dict[Tensor, str], parts: set[Tensor]) -> bool:
    """Whether each rank has a part of what a statement makes."""
    statement, read = step.statement, [t for t in step.read() if t.of != "value"]
    message, hint, way = "", "", ""
    split = [tensor for tensor in read if tensor in parts]
    if statement.op in COLLECTIVES:
        message = f"{statement.op} stands in a program that the framework splits"
    for name in (weights[tensor] for tensor in read if tensor in weights):
        way, given = case.split[name], step.reads.get("x", ())
        if statement.op != "linear" or any(t in weights for t in read if t not in step.reads["w"]):
            message, hint = f"{statement.op} reads {name!r}, which is split", _LAYER
        elif (way == "rows") == parts.isdisjoint(given):
            found = "whole" if way == "rows" else "split"
            message = f"{name!r} is split by {way}, and its layer reads a {found} tensor"
            hint = "a layer of `rows` reads what comes of layers of `columns`"
    if split and not way and len(split) < len(read):
        message = f"{statement.op} reads a split tensor and a whole one"
    if split and statement.op in RANDOM:
        message = f"{statement.op} of a split tensor draws other numbers on each rank"
    if message:
        raise CaseError(message, where=statement.where, hint=hint)
    return way == "columns" or (bool(split) and way != "rows")
