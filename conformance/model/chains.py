"""Calls of one region one after the other, each on what the last one returned."""

from collections.abc import Iterable

from conformance.model.case import Again, FlatNode, Node, Ref, Region, flat


def chains(nodes: Iterable[Node]) -> tuple[tuple[FlatNode, ...], ...]:
    """The nodes of a list in order, repetitions unrolled, grouped. A chain of calls of one region, each
    taking the one tensor that the previous call returned (under the same name), is a group; every other
    node is one alone."""
    chained: list[tuple[FlatNode, ...]] = []
    for node in flat(nodes):
        before = chained[-1][-1] if chained else None
        if isinstance(node, Again) and _hands_on(before, node):
            chained[-1] = (*chained[-1], node)
        else:
            chained.append((node,))
    return tuple(chained)


def _hands_on(before: FlatNode | None, node: Again) -> bool:
    """Whether `node` calls the same region as the node before it, on the result of that call."""
    if not isinstance(before, Region | Again) or (isinstance(before, Region) and not before.called):
        return False
    name = before.name if isinstance(before, Region) else before.region
    single = isinstance(before.gives, Ref) and len(before.takes) == 1 and not before.kwargs
    same = name == node.region and node.takes == (before.gives,) and not node.kwargs
    return single and same and node.gives == before.gives  # else what lies between may be read, too
