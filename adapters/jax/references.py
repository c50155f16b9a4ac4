"""Tensors that are written over: references (`jax.new_ref`), which are read as `h[...]`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from conformance.emit.emitter import Emitter
from conformance.model.case import (
    Again,
    Node,
    Region,
    Statement,
    Tree,
    flat,
    leaves,
    node_makes,
    walk,
)

WRITES = "add_in_place"


class References:
    """The tensors that are references from where they are made, because something writes over them.

    What an operation in place gives is the reference itself, under another name. A region is handed a
    reference if it writes over its argument, and else the value of that moment.
    """

    def __init__(self, emitter: Emitter) -> None:
        self.code, self._regions = emitter.code, emitter.regions
        #: By name of the case, the reference that holds the tensor in the function being written.
        self._held: Mapping[str, str] = {}
        #: Names of that function that are references once they are made.
        self._written_over: frozenset[str] = frozenset()

    def name(self, name: str) -> str:
        """The expression that reads a tensor of the case."""
        held = self._held.get(name)
        return name if held is None else f"{held}[...]"

    def write_references(self, names: Iterable[str]) -> None:
        """Make references of values that have just been named, those that are written over."""
        for name in names:
            if name in self._written_over:
                self.code(f"{name} = jax.new_ref({name})")
                self._held = {**self._held, name: name}

    def referred(self, targets: tuple[str, ...], expression: str) -> str:
        """What is assigned to a name: a reference to it where it is written over."""
        if len(targets) != 1 or targets[0] not in self._written_over:
            return expression
        self._held = {**self._held, targets[0]: targets[0]}
        return f"jax.new_ref({expression})"

    def held(self, name: str) -> str:
        """The reference that holds a tensor."""
        return self._held.get(name, name)

    def write_over(self, statement: Statement) -> str:
        """The reference that a statement writes over, which its target is another name of."""
        held = self.held(statement.names()[0])
        self._held = {**self._held, statement.label: held}
        return held

    @contextmanager
    def function_of(self, nodes: tuple[Node, ...], taken: Iterable[str]) -> Iterator[None]:
        """The body of a function with these nodes is written inside the `with`; `taken` are the names of
        its arguments."""
        before = self._held, self._written_over
        taken = frozenset(taken)
        self._written_over = frozenset(self._over(nodes))
        own = taken | {name for node in walk(nodes) for name in node_makes(node)}
        held = {name: held for name, held in self._held.items() if name not in own}
        self._held = held | {name: name for name in taken & self._written_over}
        try:
            yield
        finally:
            self._held, self._written_over = before

    @contextmanager
    def hiding(self, names: Iterable[str]) -> Iterator[None]:
        """Inside the `with`, these names are those of no references."""
        before = self._held
        self._held = {name: held for name, held in before.items() if name not in {*names}}
        try:
            yield
        finally:
            self._held = before

    def handed(self, tree: Tree, formal: Tree, region: Region) -> Mapping[str, str]:
        """The references that a region's function is handed for tensors in `tree`, by their names."""
        over = self._over(region.body)
        given = zip(leaves(tree), leaves(formal), strict=False)
        return {here: self.held(here) for here, there in given if there in over}

    def _over(self, nodes: Iterable[Node]) -> set[str]:
        """The names that some nodes write over, as these nodes know them."""
        written_over: set[str] = set()
        for node in flat(nodes):
            if isinstance(node, Statement):
                written_over |= {node.names()[0]} if node.op == WRITES else set()
            elif isinstance(node, Region):
                made = {name for one in walk(node.body) for name in node_makes(one)}
                written_over |= self._over(node.body) - made
            elif isinstance(node, Again):
                region = self._regions[node.region]
                over = self._over(region.body)
                given = zip(leaves(region.takes), leaves(node.takes), strict=False)
                written_over |= {here for there, here in given if there in over}
        return written_over
