"""Operations that register a hook: they are given a tensor that nothing else reads before, since the
hook changes the gradient of all that reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from conformance.errors import CaseError
from conformance.language.operations import OPERATIONS, VIEWS
from conformance.language.place import Place
from conformance.model.case import FlatNode, Region, Statement, flat, leaves, node_reads


def fresh(node: FlatNode, regions: Mapping[str, Region]) -> frozenset[str]:
    """The names that a node makes of tensors of its own, which nothing has read. A call of a region
    makes those that the region computes, and reads in no other statement."""
    if isinstance(node, Statement):
        own = node.op not in VIEWS and not OPERATIONS[node.op].over
        return frozenset(node.targets) if own else frozenset()
    region = node if isinstance(node, Region) else regions.get(node.region)
    if region is None or (isinstance(node, Region) and not node.called):
        return frozenset()
    made: frozenset[str] = frozenset()
    for inner in flat(region.body):
        made = made.difference(node_reads(inner)) | fresh(inner, regions)
    pairs = zip(leaves(region.gives), leaves(node.gives), strict=True)
    return frozenset(outside for inside, outside in pairs if inside in made)


def check(statement: Statement, names: frozenset[str]) -> None:
    """Refuse a hook on anything but one of these names, under another name."""
    (read,), (target,) = statement.names(), statement.targets
    if read != target:
        raise CaseError(
            f"the hook is on {read!r} itself, and {target!r} is another name",
            where=statement.where,
            hint=f"write `{read} = {statement.op}({read})`",
        )
    if read not in names:
        raise CaseError(
            f"{read!r} is not made by the statement or the call before, or is read inside of it",
            where=statement.where,
            hint="a hook changes the gradient of all that reads the tensor: write it first",
        )


def _hooked(place: Place) -> bool:
    reached = {id(step.statement) for step in place.reach.needed.steps}
    hooking = (i for i in place.after() if isinstance(i, Statement) and OPERATIONS[i.op].hooks)
    return any(id(statement) in reached for statement in hooking)


#: Features of a region: what they mean, and the condition.
REGION: Mapping[str, tuple[str, Callable[[Place], bool]]] = {
    "result-hooked": ("a hook changes the gradient of a result of a region", _hooked),
}
