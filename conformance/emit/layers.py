"""What emitters share that write programs of a framework's own layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from conformance.model.case import Again, Node, Region, Statement, leaves


@dataclass(frozen=True)
class Layer:
    """A layer with weights: its name, the argument that it is called on, and for each other argument of
    the operation the attribute that holds it, in the order in which they are listed."""

    name: str
    takes: str
    weights: Mapping[str, str]


def taken(nodes: Iterable[Node]) -> frozenset[str]:
    """The names that the calls of regions among these nodes are given as arguments: a layer has its
    weights from the start, so that such a name is no weight of one."""
    calls = [node for node in nodes if isinstance(node, Region | Again)]
    return frozenset(n for call in calls for n in leaves(call.takes) + leaves(call.kwargs))


def attributes(statements: Iterable[Statement]) -> dict[int, str]:
    """By the identity of each statement that a layer does, the attribute that holds the layer: the
    statement's label, with a number from the second of that label on."""
    seen: Counter[str] = Counter()
    named: dict[int, str] = {}
    for statement in statements:
        seen[statement.label] += 1
        often = seen[statement.label]
        named[id(statement)] = statement.label + ("" if often == 1 else f"_{often}")
    return named
