"""How `wrapper` writes a case: regions are modules, and `checkpoint_wrapper` wraps them once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from conformance.emit.emitter import Emitter, Forward
from conformance.emit.expressions import class_name, function
from conformance.emit.layers import Layer, attributes
from conformance.errors import NotOfferedError
from conformance.model.case import Again, Node, Region, Statement, flat, leaves, walk

from . import method

WRAPPER = "torch.distributed.algorithms._checkpoint.checkpoint_wrapper"
IMPORTS = (f"from {WRAPPER} import checkpoint_wrapper",)


class Layers(method.Layers):
    """The layers that ask their module whether it is in training mode."""

    layers_with_weights: Mapping[str, Layer] = {
        "batch_norm": method.Layers.layers_with_weights["batch_norm"]
    }
    weightless: Mapping[str, str] = {"dropout": "Dropout({p})"}

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        inside = [statement for region, statement in self.case.statements() if region]
        self.attribute_of = attributes(filter(self.is_layer, inside))


class Wrapped(Forward):
    """A class per region. What a region captures are attributes of its module; a region inside
    another is a submodule, or made in `forward` where it captures what is computed there."""

    # -- classes -------------------------------------------------------------------------------

    def write_forward(self, path: str) -> None:
        for node in self.case.program:
            if isinstance(node, Region):
                self._write_classes(node)
        super().write_forward(path)

    def _write_classes(self, region: Region) -> None:
        """The class of a region after those of the regions inside it.

        One class serves both paths, unless modules inside it are recomputed in one of them.
        """
        for node in region.body:
            if isinstance(node, Region):
                self._write_classes(node)
        if self.path == "recomputed" and not self._differs(region):
            return
        given, kept, within = self._given(region), self._kept(region), self._within(region)
        layers = self.layers.among(region.body)
        state = {array.name for array in self.case.state}
        with self.code.indent(f"class {self._class(region)}(nn.Module):"):
            if given or within or layers:
                with self.code.indent(f"def __init__({', '.join(['self', *given])}):"):
                    self.code("super().__init__()")
                    for name in kept:
                        if name in state:
                            self.code(f'self.register_buffer("{name}", {name})')
                        else:
                            self.code(f"self.{name} = {name}")
                    for statement in layers:
                        self.layers.write_layer(statement)
                    for inner in within:
                        self.code(f"self.{function(inner.name)} = {self._made(inner)}")
            held = [*kept, *(function(inner.name) for inner in within)]
            self.write_method("forward", region, held)

    def _class(self, region: Region) -> str:
        name = class_name(region.name)
        return f"Recomputed{name}" if self.path == "recomputed" and self._differs(region) else name

    def _differs(self, region: Region) -> bool:
        """Whether a region's class differs in `recomputed`: it wraps or recomputes modules."""
        calls = Region if self.recompute.direct else Region | Again
        return any(isinstance(node, calls) for node in flat(region.body))

    def _given(self, region: Region) -> list[str]:
        """The arguments of a class: what the region captures, and modules that it calls."""
        own = {node.name for node in walk(region.body) if isinstance(node, Region)}
        called = (node.region for node in walk(region.body) if isinstance(node, Again))
        modules = dict.fromkeys(function(name) for name in called if name not in own)
        return [*region.captured(), *modules]

    def _kept(self, region: Region) -> list[str]:
        """Those of a class's arguments that its own lines read, and not only the submodules."""
        read = {*self._read(region.body, self._within(region)), *leaves(region.gives)}
        return [name for name in self._given(region) if name in read]

    def _read(self, nodes: Iterable[Node], held: Collection[Region]) -> Iterator[str]:
        """The names that lines read, where the modules of the regions `held` are attributes."""
        for node in flat(nodes):
            if isinstance(node, Statement):
                owned = id(node) in self.layers.attribute_of
                yield from leaves(node.arguments[:1]) if owned else node.names()
                continue
            yield from (*leaves(node.takes), *leaves(node.kwargs))
            if isinstance(node, Again):
                yield function(node.region)
            elif node not in held:
                yield from self._given(node)

    def _within(self, region: Region) -> list[Region]:
        """The regions inside a region whose modules are submodules: it is given all that they need."""
        given = {*self._given(region)}
        return [inner for inner in _inside(region) if {*self._given(inner)} <= given]

    def _made(self, region: Region) -> str:
        """The expression that makes a region's module, wrapped in `recomputed`."""
        module, how = self._module(region), self.recompute
        if self.path == "plain" or not how.direct:
            return module
        module = "None" if region.block == "invalid" else module
        if how.own is not None:
            return how.own_transform(module, region)
        options = how.option(region, "preserve_rng", "preserve_rng_state")
        if region.save:
            options = [*options, f"context_fn={how.policy(region)}"]
        options += [*how.contexts_option(region, "context_fn"), *how.misuse(region)]
        return f"checkpoint_wrapper({', '.join([module, *options])})"

    def _module(self, region: Region) -> str:
        """The expression that makes a region's module."""
        return f"{self._class(region)}({', '.join(map(self.body.name, self._given(region)))})"

    # -- the forward pass ----------------------------------------------------------------------

    def check_held(self, region: Region) -> None:
        if not {*self._given(region)} <= {array.name for array in self.case.arrays}:
            raise NotOfferedError(
                self.variant.id, "a module made once that reads what is not a tensor"
            )
        if any(change.kind == "replace" for c in self.case.procedure.changes for change in c):
            raise NotOfferedError(self.variant.id, "another tensor in a module made once")
        super().check_held(replace(region, granularity="function"))

    def write_held(self, region: Region) -> None:
        self.code(f"self.{function(region.name)} = {self._made(region)}")

    def is_written(self, region: Region) -> bool:
        return False

    def write_region(self, region: Region) -> None:
        if self.is_method(region):
            return
        if function(region.name) not in self.body.spelled:
            self.code(f"{function(region.name)} = {self._made(region)}")

    def place(self, region: Region) -> str:
        if self.is_method(region):
            return super().place(region)
        return self.body.name(function(region.name))


def _inside(region: Region) -> list[Region]:
    """The regions directly inside a region."""
    return [node for node in region.body if isinstance(node, Region)]
