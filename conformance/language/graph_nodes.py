"""Tensors and nodes of the graph that `conformance.language.graph` goes through: numbers are in place of
derivatives."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from conformance.language.operations import CASTS, WRITTEN
from conformance.model.case import Again, Region

#: Derivatives are numbers modulo this prime.
PRIME = 2**61 - 1
#: Derivatives that are the same numbers everywhere, by operation.
_CONSTANT = {
    "add": (1, 1),
    "subtract": (1, -1),
    "negative": (-1,),
    "add_in_place": (1, 1),
    **dict.fromkeys(CASTS, (1,)),
    "raise_if": (1,),
}


@dataclass(eq=False)
class Tensor:
    """A tensor while a program runs. `made` is the node that made it and the number of the result;
    tensors of one `value` are computed in the same way."""

    requires: bool = False
    floating: bool = True
    value: int = 0
    #: Where it is known.
    dtype: str = ""
    #: Whether it shares the memory of another one, and whether with gaps or in another order.
    view: bool = False
    strided: bool = False
    #: Whether it has no elements.
    void: bool = False
    made: tuple[Node, int] | None = None
    gradient: int | None = None
    #: Passes that have added to its gradient.
    passes: int = 0
    #: What it is a view of, where no graph was recorded.
    base: Tensor | None = None
    #: The value before numbers were added to all its elements, in place; 0 if none were.
    before: int = 0
    #: The last node that was made when it began the graph anew.
    since: int = 0

    @property
    def asks(self) -> bool:
        """Whether it says that it requires a gradient. A view that was made without a graph says so as
        soon as what it is a view of does, which a region may return."""
        return self.requires or (self.base is not None and self.base.asks)

    def alias(self, requires: bool, view: bool) -> Tensor:
        """Another tensor with the same numbers, and without a graph."""
        alias = Tensor(requires, self.floating, self.value, self.dtype, view, self.void)
        alias.before, alias.strided = self.before, self.strided
        return alias


Names = dict[str, object]
#: A call of a region, with the names that it can read.
Called = tuple[Region, Region | Again, Names]


@dataclass(eq=False)
class Node:
    """A node of the graph: a statement, or a call of a region with the names that it can read. `read`
    is, for each argument, the value of what the derivative with respect to it reads."""

    number: int
    moment: int
    arguments: tuple[Tensor, ...]
    read: tuple[int, ...]
    before: tuple[tuple[Node, int] | None, ...]
    results: int
    saves: bool
    #: The arguments that it saves, of those that have a graph.
    kept: tuple[Tensor, ...]
    #: The calls around it, by their moments.
    chain: tuple[int, ...]
    operation: str = ""
    call: Called | None = None
    #: Whether its results have no elements.
    void: bool = False
    freed: bool = False
    #: The results that hooks are on.
    hooked: set[int] = field(default_factory=set)

    def derivative(self, result: int, argument: int) -> int:
        """The derivative of a result with respect to an argument."""
        if self.void or self.arguments[argument].void:
            return 0
        if self.operation in _CONSTANT:
            return _CONSTANT[self.operation][argument]
        return mixed(self.read[argument], result, argument) * 0x9E3779B97F4A7C15 % PRIME + 1


def through(node: Node, numbers: list[int | None], argument: int) -> int | None:
    """The gradient of an argument of a statement; `None` where those of all results are."""
    if node.operation in WRITTEN:
        numbers = [number or 0 for number in numbers]
    defined = [(place, number) for place, number in enumerate(numbers) if number is not None]
    if not defined:
        return None
    return sum(number * node.derivative(place, argument) for place, number in defined) % PRIME


def added(one: int | None, other: int | None) -> int | None:
    """The sum of two gradients, each of which may be `None`."""
    if one is None or other is None:
        return one if other is None else other
    return (one + other) % PRIME


def mixed(*numbers: object) -> int:
    """A number made of others, other ones for others."""
    return zlib.crc32(repr(numbers).encode())
