"""How PaddlePaddle writes a case: `recompute` at each call of a region.

In dynamic mode, as it is or compiled by `to_static`; or as a static graph (`static.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from conformance.drivers.adapter import Variant
from conformance.emit import usual
from conformance.emit.accumulating import CALLS, Accumulating, functions
from conformance.emit.calling import Calling
from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Call, Lists, Writer
from conformance.emit.expressions import elements, listed, numpy_fill, unless_default
from conformance.emit.sequences import Sequences
from conformance.model.case import Array, Case, Region, Segment

from . import layers, static

#: Whether outermost regions are reentrant, and whether regions inside others are.
REENTRANT = {
    "reentrant": (True, True),
    "hook": (False, False),
    "reentrant-around-hook": (True, False),
    "hook-around-reentrant": (False, True),
    "model-fit-hook": (False, False),
}
#: Variants whose regions are functions that Python runs each time.
EAGER = ("reentrant", "hook", "defaults", "reentrant-around-hook", "hook-around-reentrant")

_reduced = partial(usual.reduced, keepdims="keepdim")


def _batch_norm(call: Call) -> str:
    rest = ", ".join(["training=True", *layers.batch_norm_options(call.options)])
    template = "F.batch_norm({x}, {running_mean}, {running_var}, {gamma}, {beta}, {rest})"
    return template.format(**call.arguments, rest=rest)


def _layer_norm(call: Call) -> str:
    words = unless_default("epsilon", call.options["eps"], 1e-5)
    x, gamma, beta = (call.arguments[name] for name in ("x", "gamma", "beta"))
    return f"F.layer_norm({', '.join([x, f'{gamma}.shape', gamma, beta, *words])})"


def _uniform(call: Call) -> str:
    shape, low, high = (call.options[word] for word in ("shape", "low", "high"))
    seed = call.options["seed"]
    if (low, high, seed) == (0, 1, None):
        return f"paddle.rand({shape})"
    own = "" if seed is None else f", seed={seed}"
    return f"paddle.uniform({shape}, min={low}, max={high}{own})"


def _dropout(call: Call) -> str:
    x, p, seed = call.arguments["x"], call.options["p"], call.options["seed"]
    if seed is None:
        return f"F.dropout({x}, p={p})"
    # F.dropout takes no seed, paddle.uniform does.
    drawn = f"paddle.uniform({x}.shape, min=0.0, max=1.0, seed={seed})"
    return f"{x} * ({drawn} >= {p}).astype({x}.dtype) / (1 - {p})"


def _add_in_place(call: Call) -> str:
    a, b = call.arguments["a"], call.arguments["b"]
    # add_ takes a tensor and nothing else.
    added = f"paddle.full([], {b})" if _NUMBER.fullmatch(b) else b
    return f"{a}.add_({added})"


_NUMBER = re.compile(r"-?[\d.]+(e-?\d+)?")


class Emitter(Calling, Accumulating):
    """Writes one case for a variant; variants that need other code have a subclass below."""

    procedures_written: Collection[str] = (
        *("backward", "part", "functional", "per_output", "second_backward"),
        *("second_order", "third_order", "inference", "train"),
    )
    imports: Sequence[str] = (
        "import random",
        "import numpy as np",
        "import paddle",
        "import paddle.nn.functional as F",
        "from paddle.distributed.fleet.utils import recompute",
    )
    lists: Lists = "all"
    parameter = "paddle.nn.Parameter"
    grad = "paddle.grad"
    optimizer = "paddle.optimizer.SGD(learning_rate={rate}, parameters={parameters})"
    clearing_all = "optimizer.clear_grad(set_to_zero=False)"
    clearing = "{tensor}.clear_gradient(set_to_zero=False)"
    seeding = "paddle.seed({seed})"
    drawing = "paddle.rand([1])"
    without_gradients = "with paddle.no_grad():"
    hook = 'values["{name}"].register_hook(lambda _: fired.append("{name}"))'
    halving = """
        with paddle.no_grad():
            for name in {names}:
                values[name].scale_(0.5)
        """
    helpers: Mapping[str, str] = {
        **Accumulating.helpers,
        **functions(
            module="paddle",
            base="paddle.autograd.PyLayer",
            saved="saved_tensor()",
            grad="paddle.grad",
            gradients="2 * paddle.cos(x) * g",
            asking="None if x.stop_gradient else 2 * paddle.cos(x) * g",
        ),
    }
    operations: Mapping[str, Writer] = {
        **usual.OPERATORS,
        **usual.functions("paddle"),
        **usual.neural("paddle", "F"),
        **CALLS,
        "linear": "paddle.matmul({x}, {w}, transpose_y=True) + {b}",
        "batch_norm": _batch_norm,
        "layer_norm": _layer_norm,
        "sigmoid": "F.sigmoid({x})",
        "max": "paddle.max({x}, axis={axis}, keepdim={keepdims})",
        "softmax": "F.softmax({x}, axis={axis})",
        "dropout": _dropout,
        "sum": _reduced,
        "mean": _reduced,
        "reshape": "paddle.reshape({x}, {shape})",
        "permute_dims": "paddle.transpose({x}, {axes})",
        "concat": "paddle.concat({arrays}, axis={axis})",
        "split": "paddle.split({x}, {sections}, axis={axis})",
        "astype": '{x}.astype("{dtype}")',
        "asks_gradient": "not {x}.stop_gradient",
        "uniform": _uniform,
        "uniform_from": 'paddle.to_tensor({generator}.uniform({low}, {high}, {shape}), dtype="float32")',
        "numpy_uniform": 'paddle.to_tensor(np.random.uniform({low}, {high}, {shape}), dtype="float32")',
        "python_uniform": 'paddle.to_tensor(random.uniform({low}, {high}), dtype="float32")',
        "add_in_place": _add_in_place,
    }

    def __new__(cls, case: Case, variant: Variant) -> Emitter:
        return super().__new__(OTHERS.get(variant.name, cls))

    def __init__(self, case: Case, variant: Variant) -> None:
        super().__init__(case, variant)
        self.shares = variant.name in EAGER
        if len(case.parameters) == 1:
            self.halving = """
                with paddle.no_grad():
                    values["{name}"].scale_(0.5)
                """.replace("{name}", case.parameters[0].name)

    def tensor(self, array: Array, source: str) -> str:
        made = self.filled(array, source)
        if array in self.case.parameters:
            frozen = "" if array.gradient else ", requires_grad=False"
            return f"{self.parameter}({made}{frozen})"
        if array.gradient:
            made = f'paddle.to_tensor({source}, dtype="{array.dtype}", stop_gradient=False)'
        return made

    def filled(self, array: Array, source: str) -> str:
        """The expression of a tensor, which asks for no gradient."""
        if array.dtype == "float32" and array.fill.kind == "full" and source == numpy_fill(array):
            number = array.fill.numbers[0]
            if number in (0, 1):
                return f"paddle.{'ones' if number else 'zeros'}({list(array.shape)})"
            return f"paddle.full({list(array.shape)}, {number})"
        if array.fill.kind == "values":
            source = elements(array, source)
        return f'paddle.to_tensor({source}, dtype="{array.dtype}")'

    def recompute(self, region: Region) -> str:
        return "recompute"

    def options(self, region: Region) -> list[str]:
        kept = super().options(region)
        if self.variant.name not in REENTRANT:
            return kept
        outer, inner = REENTRANT[self.variant.name]
        return [f"use_reentrant={inner if self.within else outer}", *kept]

    # -- run -----------------------------------------------------------------------------------

    def write_taken(self) -> None:
        code = self.code
        code("# Clearing a gradient empties the tensor that .grad gave out: copy it first.")
        code(f"taken = {self.taken_gradients()}")
        code("gradients = {n: None if g is None else g.clone() for n, g in taken.items()}")

    def write_part(self) -> None:
        code, wrt = self.code, self.case.wrt
        gradients = [f"gradient_of_{name}" for name in wrt]
        given = self.value(wrt[0]) if len(wrt) == 1 else self.items(wrt)
        code(
            f"({', '.join(gradients)}{',' * (len(wrt) == 1)}) = paddle.grad(loss, {given})",
            BACKWARD,
        )
        entries = (f'"{name}": {one}' for name, one in zip(wrt, gradients, strict=True))
        code(f"gradients = {{{', '.join(entries)}}}")

    def write_functional(self) -> None:
        """The gradients by `vjp` of a function, inside which the forward pass is run."""
        code = self.code
        code(f"names = {listed(self.case.wrt)}")
        code("seen = []")
        with code.indent("def loss_of(*wanted):"):
            code("outputs = forward(**{**values, **dict(zip(names, wanted))})", FORWARD)
            code("seen.append(outputs)")
            code(f"loss = {self.loss()}")
            code("return loss", BACKWARD)
        call = "paddle.incubate.autograd.vjp(loss_of, [values[name] for name in names])"
        code(f"loss, found = {call}")
        code(
            f'return {{"outputs": seen[0], "losses": [loss], "gradients": dict(zip(names, found))'
            f"{self.state_entry()}}}"
        )


class Sequential(Sequences, Emitter):
    """Writes one case for `sequential`."""

    imports = (
        *Emitter.imports,
        "from paddle.incubate.distributed.fleet import recompute_sequential",
    )

    def sequential(self, region: Region, segment: Segment, handed: str) -> str:
        options = f'"segments": {segment.count}'
        options += "" if region.preserve_rng else ', "preserve_rng_state": False'
        return f"recompute_sequential({{{options}}}, layers, {handed})"


class ToStatic(Emitter):
    """Writes one case for `to-static-ast`, whose forward pass has to become one graph."""

    full_graph = True
    helpers: Mapping[str, str] = {**Emitter.helpers, "accumulate_sin": static.ACCUMULATE_SIN}

    def write_forward(self, path: str) -> None:
        self.code(f"@paddle.jit.to_static(full_graph={self.full_graph})")
        super().write_forward(path)


class Mixed(ToStatic):
    """Writes one case for `to-static-sot`, which leaves to Python what it cannot compile."""

    full_graph = False
    helpers = Emitter.helpers


class Static(static.Graphs, Emitter):
    """Writes one case for `pir-pass`."""

    lists = "nothing"  # what is fed has a name each
    loops = "nothing"  # a graph tells operations apart by the lines that led to them
    imports = static.IMPORTS
    operations: Mapping[str, Writer] = {**Emitter.operations, **static.OPERATIONS}
    helpers: Mapping[str, str] = {**Emitter.helpers, **static.HELPERS}


class Layers(layers.Networks, Emitter):
    """Writes one case for `layers`."""

    lists = "uncaptured"  # layers hold what they capture
    list_of_parameters = "nn.ParameterList({})"
    parameter = "nn.Parameter"
    optimizer = "paddle.optimizer.SGD(learning_rate={rate}, parameters=network.parameters())"
    imports = (*Emitter.imports, *layers.IMPORTS)


class Fit(layers.Fits, Layers):
    """Writes one case for `model-fit`, with either implementation."""


OTHERS: Mapping[str, type[Emitter]] = {
    "layers": Layers,
    "model-fit": Fit,
    "model-fit-hook": Fit,
    "pir-pass": Static,
    "sequential": Sequential,
    "to-static-ast": ToStatic,
    "to-static-sot": Mixed,
}
