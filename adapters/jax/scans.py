"""Regions as the body of `jax.lax.scan`: calls that follow each other, each on what the last gave."""

from __future__ import annotations

from collections.abc import Iterable

from conformance.emit.emitter import Emitter
from conformance.emit.expressions import function
from conformance.errors import AdapterError
from conformance.model.case import Node, Region, chains
from conformance.model.program import Site


class Scans(Emitter):
    """Writes each chain of calls as one loop, with the region's function as its body."""

    def write_nodes(self, nodes: Iterable[Node], region: str) -> None:
        for chain in chains(nodes):
            first = chain[0]
            if isinstance(first, Region):
                self.write_region(first)
                if not first.called:
                    continue
            if len(chain) == 1 and not (isinstance(first, Region) and first.round):
                super().write_nodes(chain, region)
                continue
            called = first if isinstance(first, Region) else self.region_named(first.region)  # type: ignore[union-attr]
            body = function(called.name) if self.path == "plain" else self.recompute(called)
            carry = self.tree(first.takes[0])  # type: ignore[union-attr]
            rounds = f"length={len(chain)}"
            if self._draws(called.body):  # type: ignore[attr-defined]
                rounds = f"jax.random.split({self._next_key()}, {len(chain)})"  # type: ignore[attr-defined]
            scan = f"lax.scan({body}, {carry}, {rounds})"
            self.code(f"{self.tree(chain[-1].gives)}, _ = {scan}")  # type: ignore[union-attr]

    def made_once(self, region: Region) -> bool:
        return False  # a body is handed over to the loop where it is made

    def write_function(self, region: Region) -> None:
        """The function of a region, from one carry to the next; a loop over the keys that it draws
        with, and over nothing else."""
        if self._threaded(region.body):  # type: ignore[attr-defined]
            raise AdapterError(f"not written for {self.variant.id}: state in a loop")
        site = Site("region", self.path, region.name, region.name)
        item = self._key if self._draws(region.body) else "_"  # type: ignore[attr-defined]
        taken = f"{self.formals(region)[0]}, {item}"
        self._folds.append(0)  # type: ignore[attr-defined]
        head = self.code.indent(f"def {function(region.name)}({taken}):", site)
        with head, self.function_of(region.body, ()):  # type: ignore[attr-defined]
            self.write_nodes(region.body, region.name)
            self.code(f"return {self.tree(region.gives)}, None")
        self._folds.pop()  # type: ignore[attr-defined]
        self.code()
