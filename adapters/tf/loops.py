"""Regions as the body of `tf.while_loop`: calls that follow each other, each on what the last gave."""

from __future__ import annotations

from collections.abc import Iterable

from conformance.emit.emitter import Body
from conformance.emit.expressions import function
from conformance.model.case import Again, Node, Region
from conformance.model.chains import chains


class Loops(Body):
    """Writes each chain of calls as one loop, with the region's function as its body."""

    def write_nodes(self, nodes: Iterable[Node], region: str) -> None:
        for chain in chains(nodes):
            first = chain[0]
            one = len(chain) == 1 and not (isinstance(first, Region) and first.round)
            if one or not isinstance(first, Region | Again):
                super().write_nodes(chain, region)
                continue
            if isinstance(first, Region):
                self.forward.write_region(first)
                called = first
            else:
                called = self.emitter.regions[first.region]
            plain = self.path == "plain"
            body = function(called.name) if plain else self.recompute.callable_of(called)
            carry = self.tree(first.takes[0])
            self.code(
                f"_, {self.tree(chain[-1].gives)} = tf.while_loop("  # type: ignore[union-attr]
                f"lambda i, _: i < {len(chain)}, lambda i, h: (i + 1, {body}(h)), "
                f"(tf.constant(0), {carry}), maximum_iterations={len(chain)})"
            )
