"""How `sequential` writes a case: a sequence's layers as functions, given to one call."""

from __future__ import annotations

from conformance.emit.emitter import Emitter as Base
from conformance.emit.expressions import function
from conformance.model.case import Ref, Region
from conformance.model.program import Site

IMPORTS = ("from paddle.incubate.distributed.fleet import recompute_sequential",)


def write_region(emitter: Base, region: Region) -> None:
    """A function per layer of the whole sequence, before its first segment."""
    if region.segment is not None and region.segment.first:
        for part in _segments(emitter, region):
            _write_layers(emitter, part)


def write_call(emitter: Base, region: Region) -> None:
    """One call for all segments, where the first one is."""
    if region.segment is None or not region.segment.first:
        return
    handed = _handed(region)
    layers = [name for part in _segments(emitter, region) for name in _layers(emitter, part)]
    emitter.code(f"layers = [{', '.join(layers)}]")
    if emitter.path == "plain":
        with emitter.code.indent("for layer in layers:"):
            emitter.code(f"{handed} = layer({handed})")
        return
    options = f'"segments": {region.segment.count}'
    if not region.preserve_rng:
        options += ', "preserve_rng_state": False'
    emitter.code(f"{handed} = recompute_sequential({{{options}}}, layers, {handed})")


def _handed(region: Region) -> str:
    """The name of the tensor that is handed from layer to layer."""
    (handed,) = region.takes
    assert isinstance(handed, Ref)
    return handed.name


def _segments(emitter: Base, region: Region) -> list[Region]:
    """The segments of the sequence that a segment belongs to."""
    assert region.segment is not None
    name = region.segment.sequence
    every = [r for r in emitter.case.regions() if r.segment is not None]
    return [r for r in every if r.segment is not None and r.segment.sequence == name]


def _layers(emitter: Base, region: Region) -> list[str]:
    """The names of the functions of a segment's layers, numbered through the sequence."""
    assert region.segment is not None
    number = region.segment.number
    parts = [r.segment for r in _segments(emitter, region) if r.segment is not None]
    start = 1 + sum(len(part.layers) for part in parts if part.number < number)
    name = function(region.segment.sequence)
    return [f"{name}_layer{start + n}" for n in range(len(region.segment.layers))]


def _write_layers(emitter: Base, region: Region) -> None:
    """A function per layer; a segment is entered where its first layer is."""
    assert region.segment is not None
    handed = _handed(region)
    names = _layers(emitter, region)
    for number, (name, body) in enumerate(zip(names, region.segment.layers, strict=True)):
        entry = Site("region", emitter.path, region.name, region.name)
        with emitter.code.indent(f"def {name}({handed}):", None if number else entry):
            emitter.write_nodes(body, region.name)
            emitter.code.leave(str(handed))
        emitter.code()
