"""How MLX writes a case: functions of arrays, `mx.value_and_grad` of the loss, and `mx.eval`, since
everything before it only builds a graph.

`Emitter` puts `mx.checkpoint` around a region's function. `Modules`, for `module`, hands what the
region captures of the parameters to a module, and puts `nn.utils.checkpoint` around both.
"""

from __future__ import annotations

from collections.abc import Mapping

from conformance.drivers.adapter import Variant
from conformance.emit.emitter import Writer
from conformance.emit.expressions import function
from conformance.emit.lazy import Lazy
from conformance.model.case import Again, Array, Case, Region, walk

from . import operations


class Emitter(Lazy):
    """Writes one case for `function`; `Modules` does for `module`."""

    imports = (
        "import random",
        "import mlx.core as mx",
        "from mlx import nn",
        "import numpy as np",
        "from mlx.utils import tree_map",
    )
    helpers: Mapping[str, str] = operations.HELPERS
    operations: Mapping[str, Writer] = operations.OPERATIONS
    vmap = "mx.vmap"
    shares = True
    lists = "uncaptured"  # what a region captures is an attribute of a module
    seeding = "mx.random.seed({seed})"
    drawing = "mx.random.uniform()"
    value_and_grad, evaluate, tree_map = "mx.value_and_grad", "mx.eval", "tree_map"

    def __new__(cls, case: Case, variant: Variant) -> Emitter:
        return super().__new__(Modules if variant.name == "module" else cls)

    def tensor(self, array: Array, source: str) -> str:
        return f"mx.array({source}, mx.{array.dtype})"

    def framework_generator(self, seed: int) -> str:
        return f"mx.random.key({seed})"

    def checkpoint(self, region: Region) -> str:
        return f"mx.checkpoint({', '.join([self.block(region), *self.misuse(region)])})"


class Modules(Emitter):
    """Writes one case for `module`. What a region captures of the parameters are attributes of a
    module, and what it calls of other regions are submodules."""

    #: The module whose function is being written, and the names that are its attributes.
    _held: tuple[str, frozenset[str]] = ("", frozenset())

    def write_region(self, region: Region) -> None:
        if self.path == "plain" or region.block == "invalid":
            super().write_region(region)
            return
        captured, called = self._attributes(region)
        module = _module(region.name)
        if captured or called:
            self.code(f"{module} = nn.Module()")
            for name in captured:
                self.code(f"{module}.{name} = {self.name(name)}")
            for name in called:
                self.code(f"{module}.{function(name)} = {_module(name)}")
            self.code()
        outer, self._held = self._held, (module, frozenset(captured))
        super().write_region(region)
        self._held = outer

    def _attributes(self, region: Region) -> tuple[list[str], list[str]]:
        """What a region's module has: parameters that the region captures, and the regions called in it
        that are written outside of it and have a module."""
        names = {array.name for array in self.case.parameters}
        own = {node.name for node in walk(region.body) if isinstance(node, Region)}
        called = dict.fromkeys(n.region for n in walk(region.body) if isinstance(n, Again))
        others = [name for name in called if name not in own]
        having = [name for name in others if any(self._attributes(self.region_named(name)))]
        return [name for name in region.captured() if name in names], having

    def checkpoint(self, region: Region) -> str:
        if region.block == "invalid":
            return "nn.utils.checkpoint(None)"
        module = _module(region.name) if any(self._attributes(region)) else "nn.Module()"
        given = ", ".join([module, self.block(region), *self.misuse(region)])
        return f"nn.utils.checkpoint({given})"

    def name(self, name: str) -> str:
        module, names = self._held
        return f"{module}.{name}" if name in names else name


def _module(region: str) -> str:
    return f"{function(region)}_module"
