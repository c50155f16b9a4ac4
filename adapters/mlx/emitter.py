"""How MLX writes a case: functions of arrays, `mx.value_and_grad` of the loss, and `mx.eval`, since
everything before it only builds a graph.

`Emitter` puts `mx.checkpoint` around a region's function. `Modules`, for `module`, hands what the
region captures of the parameters to a module, and puts `nn.utils.checkpoint` around both.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

from conformance.drivers.adapter import Variant
from conformance.emit.emitter import Writer
from conformance.emit.expressions import function, like_numpy
from conformance.emit.layers import class_name, module_class
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
        return like_numpy("mx", array, source, f"mx.{array.dtype}")

    def framework_generator(self, seed: int) -> str:
        return f"mx.random.key({seed})"

    def checkpoint(self, region: Region) -> str:
        return f"mx.checkpoint({', '.join([self.block(region), *self.misuse(region)])})"


class Modules(Emitter):
    """Writes one case for `module`. A region that reads nothing but parameters from around it is a
    class of modules that have them. Any other one is a function, beside a module that has the
    parameters that it captures and the modules of the regions that it calls."""

    #: The module whose function is being written, and the names that are its attributes.
    _held: tuple[str, frozenset[str]] = ("", frozenset())

    def write_function(self, region: Region) -> None:
        captured, outer, held = self._captured(region), self._held, self._module(region)
        shared = self.path == "both"
        if self.path != "plain":
            self._held = "self" if shared else held, frozenset(captured)
        head = module_class(self.code, class_name(region.name), "nn.Module", captured)
        with head if shared else nullcontext():
            super().write_function(region)
        self._held = outer

    def heading(self, region: Region) -> str:
        if self.path != "both":
            return super().heading(region)
        return f"def __call__({', '.join(filter(None, ['self', self.parameters(region)]))}):"

    def write_region(self, region: Region) -> None:
        """The module of a region before its function; in `plain` a function needs none."""
        code, captured, module = self.code, self._captured(region), self._module(region)
        recomputed = self.path == "recomputed"
        if recomputed and region.block == "invalid":
            pass
        elif region.name in self._shared:
            code(f"{module} = {class_name(region.name)}({', '.join(captured)})")
        elif recomputed:
            code(f"{module} = nn.Module()")
            for name in captured:
                code(f"{module}.{name} = {self.name(name)}")
            for name in self._called(region):
                code(f"{module}.{function(name)} = {self._module(self.region_named(name))}")
            code()
        super().write_region(region)

    def _module(self, region: Region) -> str:
        return function(region.name) + ("" if region.name in self._shared else "_module")

    def _captured(self, region: Region) -> list[str]:
        names = {array.name for array in self.case.parameters}
        return [name for name in region.captured() if name in names]

    def _called(self, region: Region) -> list[str]:
        """The regions that a region calls and that are written outside of it."""
        own = {node.name for node in walk(region.body) if isinstance(node, Region)}
        called = dict.fromkeys(n.region for n in walk(region.body) if isinstance(n, Again))
        return [name for name in called if name not in own]

    def checkpoint(self, region: Region) -> str:
        module = "None" if region.block == "invalid" else self._module(region)
        separate = region.name not in self._shared and region.block != "invalid"
        given = [module, *([self.block(region)] if separate else []), *self.misuse(region)]
        return f"nn.utils.checkpoint({', '.join(given)})"

    def name(self, name: str) -> str:
        module, names = self._held
        return f"{module}.{name}" if name in names else name
