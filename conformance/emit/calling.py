"""Programs in which recompute takes a region's function and its arguments in one call."""

from __future__ import annotations

from abc import ABC

from conformance.emit.emitter import Emitter as Base
from conformance.emit.expressions import function
from conformance.model.case import Again, Region


class Calling(Base, ABC):
    """Writes calls like `checkpoint(block, x, preserve_rng_state=False)`.

    An adapter's `recompute` gives the name of the function, `options` the keywords.
    """

    def place(self, region: Region) -> str:
        """The expression of a region's function, or of the layer or method that it is."""
        return function(region.name)

    def options(self, region: Region) -> list[str]:
        """The keywords of a region's call."""
        return self.option(region, "preserve_rng", "preserve_rng_state")

    def called(self, node: Region | Again, callee: str, region: Region) -> str:
        block, arguments = self.place(region), self.call_arguments(node)
        if self.path == "plain":
            return f"{block}({arguments})"
        if region.block == "invalid":
            block = "None"
        if self.own is not None:
            return self.own_call(block, arguments, region)
        words = filter(None, [block, arguments, *self.options(region)])
        return f"{callee}({', '.join(words)})"
