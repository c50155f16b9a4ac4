"""How `sequential` writes a case: a sequence's layers as functions, given to one call."""

from __future__ import annotations

from conformance.emit.emitter import Spelling as Base
from conformance.emit.emitter import function
from conformance.model.case import Ref, Region
from conformance.model.program import Site

IMPORTS = ("from paddle.incubate.distributed.fleet import recompute_sequential",)


def write_region(spelling: Base, region: Region) -> None:
    """A function per layer of the whole sequence, before its first segment."""
    if region.segment is not None and region.segment.first:
        for part in _segments(spelling, region):
            _write_layers(spelling, part)


def write_call(spelling: Base, region: Region) -> None:
    """One call for all segments, where the first one is."""
    if region.segment is None or not region.segment.first:
        return
    handed = _handed(region)
    layers = [name for part in _segments(spelling, region) for name in _layers(spelling, part)]
    spelling.code(f"layers = [{', '.join(layers)}]")
    if spelling.path == "plain":
        with spelling.code.indent("for layer in layers:"):
            spelling.code(f"{handed} = layer({handed})")
        return
    options = f'"segments": {region.segment.count}'
    if not region.preserve_rng:
        options += ', "preserve_rng_state": False'
    spelling.code(f"{handed} = recompute_sequential({{{options}}}, layers, {handed})")


def _handed(region: Region) -> str:
    """The name of the tensor that is handed from layer to layer."""
    (handed,) = region.takes
    assert isinstance(handed, Ref)
    return handed.name


def _segments(spelling: Base, region: Region) -> list[Region]:
    """The segments of the sequence that a segment belongs to."""
    assert region.segment is not None
    name = region.segment.sequence
    every = [r for r in spelling.case.regions() if r.segment is not None]
    return [r for r in every if r.segment is not None and r.segment.sequence == name]


def _layers(spelling: Base, region: Region) -> list[str]:
    """The names of the functions of a segment's layers, numbered through the sequence."""
    assert region.segment is not None
    number = region.segment.number
    parts = [r.segment for r in _segments(spelling, region) if r.segment is not None]
    start = 1 + sum(len(part.layers) for part in parts if part.number < number)
    name = function(region.segment.sequence)
    return [f"{name}_layer{start + n}" for n in range(len(region.segment.layers))]


def _write_layers(spelling: Base, region: Region) -> None:
    """A function per layer; a segment is entered where its first layer is."""
    assert region.segment is not None
    handed = _handed(region)
    names = _layers(spelling, region)
    for number, (name, body) in enumerate(zip(names, region.segment.layers, strict=True)):
        entry = Site("region", spelling.path, region.name, region.name)
        with spelling.code.indent(f"def {name}({handed}):", None if number else entry):
            spelling.write_nodes(body, region.name)
            spelling.code(f"return {handed}")
        spelling.code()
