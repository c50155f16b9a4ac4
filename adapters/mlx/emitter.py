"""How MLX writes a case: functions of arrays, `mx.value_and_grad` of the loss, and `mx.eval`, since
everything before it only builds a graph.

`function` puts `mx.checkpoint` around a region's function. `module` hands what the region captures of
the parameters to a module, and puts `nn.utils.checkpoint` around both.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from conformance.drivers.adapter import Variant
from conformance.emit import functional
from conformance.emit.code import BACKWARD
from conformance.emit.emitter import Emitter, Forward, Parts, Recompute, Tensors
from conformance.emit.expressions import class_name, function, like_numpy, listed
from conformance.emit.layers import module_class
from conformance.emit.transforms import Transforms
from conformance.errors import NotOfferedError
from conformance.language.backward import backward
from conformance.language.flow import Flow, Tensor
from conformance.language.reach import losses, steps
from conformance.model.case import FORWARD_MODE, Again, Array, Case, Region, walk

from . import operations

WORDS = replace(
    functional.LAZY_WORDS,
    procedures_written=(*functional.LAZY_WORDS.procedures_written, *FORWARD_MODE),
    reverse_only=("custom_sin",),
    imports=(
        "import random",
        "import mlx.core as mx",
        "from mlx import nn",
        "import numpy as np",
        "from mlx.utils import tree_map",
    ),
    helpers=operations.HELPERS,
    operations=operations.OPERATIONS,
    vmap="mx.vmap",
    shares=True,
    lists="uncaptured",  # what a region captures is an attribute of a module
    seeding="mx.random.seed({seed})",
    drawing="mx.random.uniform()",
)


class Arrays(Tensors):
    """MLX's arrays, and keys."""

    def tensor(self, array: Array, source: str) -> str:
        dtype = "bool_" if array.dtype == "bool" else array.dtype
        return like_numpy("mx", array, source, f"mx.{dtype}")

    def framework_generator(self, seed: int) -> str:
        return f"mx.random.key({seed})"


class Checkpoint(Recompute):
    """`mx.checkpoint` of a function."""

    def checkpoint(self, region: Region) -> str:
        return f"mx.checkpoint({', '.join([self.block(region), *self.misuse(region)])})"


class Modules(Forward):
    """Regions for `module`. A region that reads nothing but parameters from around it is a class of
    modules that have them. Any other one is a function, beside a module that has the parameters that it
    captures and the modules of the regions that it calls."""

    def write_function(self, region: Region) -> None:
        if self.is_method(region):
            super().write_function(region)
            return
        captured, shared, names = self._captured(region), self.path == "both", self.body.spelled
        if self.path != "plain":
            holder = "self" if shared else self.module(region)
            around = {} if shared else names
            names = {**around, **{name: f"{holder}.{name}" for name in captured}}
        head = module_class(self.code, class_name(region.name), "nn.Module", captured)
        with self.body.spelling(names), head if shared else nullcontext():
            super().write_function(region)

    def heading(self, region: Region) -> str:
        if self.path != "both" or self.is_method(region):
            return super().heading(region)
        return f"def __call__({', '.join(filter(None, ['self', self.parameters(region)]))}):"

    def write_region(self, region: Region) -> None:
        """The module of a region before its function; in `plain` a function needs none."""
        if self.is_method(region):
            return
        code, captured, module = self.code, self._captured(region), self.module(region)
        recomputed = self.path == "recomputed"
        if recomputed and region.block == "invalid":
            pass
        elif region.name in self.emitter.shared:
            code(f"{module} = {class_name(region.name)}({', '.join(captured)})")
        elif recomputed:
            code(f"{module} = nn.Module()")
            for name in captured:
                code(f"{module}.{name} = {self.body.name(name)}")
            for name in self._called(region):
                called = self.module(self.emitter.regions[name])
                code(f"{module}.{function(name)} = {called}")
        super().write_region(region)

    def module(self, region: Region) -> str:
        """The name of a region's module."""
        return function(region.name) + ("" if region.name in self.emitter.shared else "_module")

    def _captured(self, region: Region) -> list[str]:
        names = {array.name for array in self.case.parameters}
        return [name for name in region.captured() if name in names]

    def _called(self, region: Region) -> list[str]:
        """The regions that a region calls and that are written outside of it."""
        own = {node.name for node in walk(region.body) if isinstance(node, Region)}
        called = dict.fromkeys(n.region for n in walk(region.body) if isinstance(n, Again))
        return [name for name in called if name not in own]


class CheckpointModule(Recompute):
    """`nn.utils.checkpoint` of a module, and of a function beside it."""

    def checkpoint(self, region: Region) -> str:
        invalid, shared = region.block == "invalid", region.name in self.emitter.shared
        module = function(region.name) + ("" if shared else "_module")
        if self.forward.is_method(region):
            module = "nn.Module()"
        given = ["None" if invalid else module]
        given += [] if shared or invalid else [self.block(region)]
        return f"nn.utils.checkpoint({', '.join([*given, *self.misuse(region)])})"


class ForwardMode(Transforms):
    """`mx.jvp`."""

    def write(self) -> None:
        code, case, kind = self.code, self.case, self.case.procedure.kind
        code("seen = []")
        whole = kind == "jvp_of_gradient"
        self.write_function("output_of", self.run.loss() if whole else self.place)
        code(f"wanted = {self.values.items(case.wrt)}")
        numbers = [*range(len(case.wrt))]
        if whole:
            code(f"gradient_of = mx.grad(output_of, argnums={numbers})")
            code("taken, tangents = mx.jvp(gradient_of, wanted, wanted)")
            code(f"gradients = dict(zip({listed(case.wrt)}, taken))")
            code(f"again = dict(zip({listed(case.wrt)}, tangents))")
        elif kind == "jvp":
            code("_, (tangent,) = mx.jvp(output_of, wanted, wanted)")
        else:
            with code.indent("def tangent_of(*given):"):
                code("_, (tangent,) = mx.jvp(output_of, list(given), wanted)")
                code(f"return {self.reduced('tangent')}, tangent")
            taking = f"mx.value_and_grad(tangent_of, argnums={numbers})"
            code(f"(_, tangent), taken = {taking}(*wanted)")
            of_several = f"dict(zip({listed(case.wrt)}, taken))"  # of one, it is no list
            code(f"again = {of_several if len(numbers) > 1 else f'{{{case.wrt[0]!r}: taken}}'}")
        code("outputs = seen[0]")
        found = {"jvp": "tangent", "jvp_of_gradient": "gradients, again"}.get(
            kind, "tangent, again"
        )
        code(f"mx.eval(outputs, {found})", BACKWARD)


RUN = partial(
    functional.Lazy, value_and_grad="mx.value_and_grad", evaluate="mx.eval", tree_map="tree_map"
)
PARTS = Parts(WORDS, Arrays, Checkpoint, RUN, transforms=ForwardMode)
VARIANTS = {
    "function": PARTS,
    "module": PARTS.but(recompute=CheckpointModule, forward=Modules),
}


def _evaluated(case: Case) -> bool:
    """Whether a condition of Python's evaluates what comes from a gradient that is taken inside. MLX
    frees the graph of that, and gradients are zeros, without recompute too."""
    inner: set[Tensor] = set()
    for step in steps(Flow(case).items):
        read = {tensor for tensors in step.reads.values() for tensor in tensors}
        if step.statement.op == "branch_sin" and not inner.isdisjoint(read):
            return True
        if step.statement.op == "slope_of_sin" or not inner.isdisjoint(read):
            inner.update(step.makes)
    return False


#: Operations that sum over axes of an argument.
_SUMS = frozenset({"accumulate_sin", "batch_norm", "branch_sin", "layer_norm", "mean", "sum"})


def emitter(case: Case, variant: Variant) -> Emitter:
    """What writes a case for `function` or `module`."""
    if case.procedure.kind != "inference" and _evaluated(case):
        raise NotOfferedError(
            variant.id, "a condition of Python's on a gradient that is taken inside"
        )
    of = backward(Flow(case))
    summed = {t for step in of.every if step.statement.op in _SUMS for t in step.read()}
    if not of.void.isdisjoint(summed.union(losses(of.flow))):
        # Now and then the kernel does not end, without recompute too.
        raise NotOfferedError(variant.id, "a sum over an axis without elements")
    return Emitter(case, variant, VARIANTS[variant.name])
