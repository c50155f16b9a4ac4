"""Shared by emitters whose programs use the framework's own layers (modules with weights)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from conformance.model.case import (
    Again,
    Node,
    Region,
    Statement,
    flat,
    leaves,
)


@dataclass(frozen=True)
class Layer:
    """A layer with weights: its class's `name`, the argument of the operation that it `takes` when
    called, and for each other argument the attribute of the layer that holds it, in order."""

    name: str
    takes: str
    weights: Mapping[str, str]


def taken(nodes: Iterable[Node]) -> frozenset[str]:
    """The names passed as arguments to the regions called among these nodes. Such a tensor cannot be a
    weight of a layer, since a layer gets its weights when it is made."""
    calls = [node for node in flat(nodes) if isinstance(node, Region | Again)]
    return frozenset(n for call in calls for n in leaves(call.takes) + leaves(call.kwargs))


def attributes(statements: Iterable[Statement]) -> dict[int, str]:
    """For each statement that a layer computes, by `id(statement)`, the attribute that holds the layer:
    the statement's label, with a number appended from the second of the same label on."""
    seen: Counter[str] = Counter()
    named: dict[int, str] = {}
    for statement in statements:
        seen[statement.label] += 1
        often = seen[statement.label]
        named[id(statement)] = statement.label + ("" if often == 1 else f"_{often}")
    return named
