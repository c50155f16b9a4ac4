"""Programs in which recompute takes a list of layers, and divides it into segments."""

from __future__ import annotations

from conformance.emit.expressions import function
from conformance.emit.forward import Forward
from conformance.model.case import Again, Ref, Region, Segment
from conformance.model.program import Site


class Sequences(Forward):
    """Writes a function per layer at a sequence's first segment, and one call that runs them all."""

    def sequential(self, region: Region, segment: Segment, handed: str) -> str:
        """The call that recomputes the list `layers` in `segment.count` segments, from the tensor
        `handed` on."""
        raise NotImplementedError

    def write_region(self, region: Region) -> None:
        if region.segment is not None and region.segment.first:
            for names, part in self._named_layers(region.segment):
                self._write_layers(names, part)

    def write_call(self, node: Region | Again, region: Region) -> None:
        if region.segment is None or not region.segment.first:
            return
        handed = _handed(region)
        layers = [name for names, _ in self._named_layers(region.segment) for name in names]
        self.code(f"layers = [{', '.join(layers)}]")
        if self.path == "plain":
            with self.code.indent("for layer in layers:"):
                self.code(f"{handed} = layer({handed})")
        else:
            self.code(f"{handed} = {self.sequential(region, region.segment, handed)}")

    def _named_layers(self, segment: Segment) -> list[tuple[list[str], Region]]:
        """The segments of a sequence in order, each after the names of its layers' functions, which are
        numbered through the sequence."""
        named: list[tuple[list[str], Region]] = []
        name, number = function(segment.sequence), 0
        for region in self.case.regions():
            if region.segment is not None and region.segment.sequence == segment.sequence:
                start, number = number, number + len(region.segment.layers)
                named.append(([f"{name}_layer{n + 1}" for n in range(start, number)], region))
        return named

    def _write_layers(self, names: list[str], region: Region) -> None:
        """Write the functions of a segment's layers. The first one counts as the segment's entry."""
        assert region.segment is not None
        handed = _handed(region)
        entry: Site | None = Site("region", self.path, region.name, region.name)
        for name, body in zip(names, region.segment.layers, strict=True):
            with self.code.indent(f"def {name}({handed}):", entry):
                self.body.write_nodes(body, region.name)
                self.code.leave(handed)
            self.code()
            entry = None


def _handed(region: Region) -> str:
    """The name of the tensor that is handed from layer to layer."""
    (handed,) = region.takes
    assert isinstance(handed, Ref)
    return handed.name
