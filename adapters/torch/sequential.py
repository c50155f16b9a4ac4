"""How `sequential` writes a case: a sequence's layers as functions, given to one call."""

from __future__ import annotations

from conformance.emit.emitter import Emitter as Base
from conformance.emit.expressions import function
from conformance.model.case import Again, Ref, Region, Statement
from conformance.model.program import Site

IMPORTS = ("from torch.utils.checkpoint import checkpoint_sequential",)


class Sequences(Base):
    """Writes the layers of all segments at the first one, and the call that runs them."""

    def write_region(self, region: Region) -> None:
        if region.segment is not None and region.segment.first:
            for part in self._segments(region):
                self._write_layers(part)

    def write_call(self, node: Region | Again, call: str, region: Region) -> None:
        if region.segment is None or not region.segment.first:
            return
        (handed,) = region.takes
        assert isinstance(handed, Ref)
        layers = [name for part in self._segments(region) for name in self._layers(part)]
        self.code(f"layers = [{', '.join(layers)}]")
        if self.path == "plain":
            with self.code.indent("for layer in layers:"):
                self.code(f"{handed.name} = layer({handed.name})")
        else:
            given = ["layers", str(region.segment.count), handed.name, "use_reentrant=False"]
            if not region.preserve_rng:
                given.append("preserve_rng_state=False")
            self.code(f"{handed.name} = checkpoint_sequential({', '.join(given)})")

    def _segments(self, region: Region) -> list[Region]:
        """The segments of the sequence that a segment belongs to."""
        assert region.segment is not None
        every = [r for r in self.case.regions() if r.segment is not None]
        name = region.segment.sequence
        return [r for r in every if r.segment is not None and r.segment.sequence == name]

    def _layers(self, region: Region) -> list[str]:
        """The names of the functions of a segment's layers, numbered through the sequence."""
        assert region.segment is not None
        every = [part.segment for part in self._segments(region) if part.segment is not None]
        before = [segment for segment in every if segment.number < region.segment.number]
        start = 1 + sum(len(segment.layers) for segment in before)
        name = function(region.segment.sequence)
        return [f"{name}_layer{start + n}" for n in range(len(region.segment.layers))]

    def _write_layers(self, region: Region) -> None:
        """Write a function per layer. The first layer's function counts as the entry of the segment."""
        assert region.segment is not None
        (handed,) = region.takes
        assert isinstance(handed, Ref)
        layers: tuple[tuple[Statement, ...], ...] = region.segment.layers
        for number, (name, body) in enumerate(zip(self._layers(region), layers, strict=True)):
            entry = Site("region", self.path, region.name, region.name)
            head = f"def {name}({handed.name}):"
            with self.code.indent(head, None if number else entry):
                self.write_nodes(body, region.name)
                self.code.leave(handed.name)
            self.code()
