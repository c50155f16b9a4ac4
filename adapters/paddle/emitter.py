"""How PaddlePaddle writes a case: `recompute` at each call of a region.

In dynamic mode, as it is or compiled by `to_static`; or as a static graph (`static.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from conformance.drivers.adapter import Variant
from conformance.emit import usual
from conformance.emit.accumulating import Accumulating
from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Call, Lists, Writer
from conformance.emit.expressions import elements, function, listed, numpy_fill
from conformance.model.case import Again, Array, Case, Region

from . import layers, sequential, static

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
#: For the variants that compile the forward pass, the option of `to_static`.
FULL_GRAPH: Mapping[str, bool] = {"to-static-ast": True, "to-static-sot": False}


_reduced = partial(usual.reduced, keepdims="keepdim")


def _conv2d(call: Call) -> str:
    stride = "" if call.options["stride"] == 1 else f", stride={call.options['stride']}"
    padding = "" if call.options["padding"] == "valid" else ', padding="same"'
    return f"F.conv2d({call.arguments['x']}, {call.arguments['w']}{stride}{padding})"


def _batch_norm(call: Call) -> str:
    momentum, eps = call.options["momentum"], call.options["eps"]
    assert isinstance(momentum, float)
    # Paddle's momentum is the share of the old value that is kept.
    kept = round(1 - momentum, 12)
    words = [*layers.written("momentum", kept, 0.9), *layers.written("epsilon", eps, 1e-5)]
    return "F.batch_norm({x}, {running_mean}, {running_var}, {gamma}, {beta}, {rest})".format(
        **call.arguments, rest=", ".join(["training=True", *words])
    )


def _layer_norm(call: Call) -> str:
    words = layers.written("epsilon", call.options["eps"], 1e-5)
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
CUSTOM_SIN = """
    class CustomSin(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x, reads):
            ctx.save_for_backward(x)
            ctx.reads = reads
            return paddle.sin(x)

        @staticmethod
        def backward(ctx, g):
            for _ in range(ctx.reads):
                (x,) = ctx.saved_tensor()
            return 2 * paddle.cos(x) * g
    """
ASKING_SIN = """
    class AskingSin(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return paddle.sin(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensor()
            return None if x.stop_gradient else 2 * paddle.cos(x) * g
    """
SLOPE_OF_SIN = """
    def slope_of_sin(x):
        (slope,) = paddle.grad(paddle.sin(x).sum(), x, create_graph=True)
        return slope
    """
ACCUMULATE_SIN = """
    def accumulate_sin(x, total):
        with paddle.no_grad():
            total.add_(x.sum(0))
        return paddle.sin(x)
    """


class Emitter(Accumulating):
    """Writes one case for any variant."""

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
        "custom_sin": CUSTOM_SIN,
        "asking_sin": ASKING_SIN,
        "slope_of_sin": SLOPE_OF_SIN,
        "accumulate_sin": ACCUMULATE_SIN,
    }
    operations: Mapping[str, Writer] = {
        **usual.OPERATORS,
        **usual.functions("paddle"),
        "solve": "paddle.linalg.solve({a}, {b})",
        "linear": "paddle.matmul({x}, {w}, transpose_y=True) + {b}",
        "conv2d": _conv2d,
        "max_pool2d": "F.max_pool2d({x}, {size})",
        "avg_pool2d": "F.avg_pool2d({x}, {size})",
        "batch_norm": _batch_norm,
        "layer_norm": _layer_norm,
        "embedding": "F.embedding({indices}, {table})",
        "relu": "F.relu({x})",
        "gelu": "F.gelu({x})",
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
        "to_complex": "paddle.complex({a}, {b})",
        "real": "paddle.real({x})",
        "imag": "paddle.imag({x})",
        "stop_gradient": "{x}.detach()",
        "asks_gradient": "not {x}.stop_gradient",
        "uniform": _uniform,
        "uniform_from": 'paddle.to_tensor({generator}.uniform({low}, {high}, {shape}), dtype="float32")',
        "numpy_uniform": 'paddle.to_tensor(np.random.uniform({low}, {high}, {shape}), dtype="float32")',
        "python_uniform": 'paddle.to_tensor(random.uniform({low}, {high}), dtype="float32")',
        "rrelu": "F.rrelu({x}, {low}, {high}, training=True)",
        "custom_sin": "CustomSin.apply({x}, {reads})",
        "asking_sin": "AskingSin.apply({x})",
        "slope_of_sin": "slope_of_sin({x})",
        "accumulate_sin": "accumulate_sin({x}, {total})",
        "add_in_place": _add_in_place,
    }

    def __new__(cls, case: Case, variant: Variant) -> Emitter:
        return super().__new__(OTHERS.get(variant.name, cls))

    def __init__(self, case: Case, variant: Variant) -> None:
        self.static = variant.name == "pir-pass"
        if self.static:
            self.lists = "nothing"  # what is fed has a name each
        super().__init__(case, variant)
        self.shares = variant.name in EAGER
        if len(case.parameters) == 1:
            self.halving = """
                with paddle.no_grad():
                    values["{name}"].scale_(0.5)
                """.replace("{name}", case.parameters[0].name)
        if self.static:
            self.imports = static.IMPORTS
            self.loops = "nothing"  # a graph tells operations apart by the lines that led to them
            self.operations = {**self.operations, **static.OPERATIONS}
            self.helpers = {**Emitter.helpers, **static.HELPERS}
        elif variant.name == "to-static-ast":
            self.helpers = {**Emitter.helpers, "accumulate_sin": static.ACCUMULATE_SIN}
        elif variant.name == "sequential":
            self.imports = (*Emitter.imports, *sequential.IMPORTS)

    def write_helpers(self) -> None:
        if self.static:
            self.code("paddle.enable_static()\n\n")
        super().write_helpers()

    def write_main(self) -> None:
        if self.static:
            static.write_helpers(self)
        super().write_main()

    def write_forward(self, path: str) -> None:
        if self.variant.name in FULL_GRAPH:
            self.code(f"@paddle.jit.to_static(full_graph={FULL_GRAPH[self.variant.name]})")
        super().write_forward(path)

    def tensor(self, array: Array, source: str) -> str:
        if self.static:
            return str(static.tensor(array, source))
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

    def write_region(self, region: Region) -> None:
        if self.variant.name == "sequential":
            sequential.write_region(self, region)
        else:
            super().write_region(region)

    def write_call(self, node: Region | Again, call: str, region: Region) -> None:
        if self.variant.name == "sequential":
            sequential.write_call(self, region)
        else:
            super().write_call(node, call, region)

    def recompute(self, region: Region) -> str:
        return "recompute"

    def called(self, node: Region | Again, callee: str, region: Region) -> str:
        if self.path == "plain":
            return super().called(node, callee, region)
        block = "None" if region.block == "invalid" else function(region.name)
        arguments = self.call_arguments(node)
        if self.own is not None:
            return self.own_call(block, arguments, region)
        return f"recompute({', '.join(filter(None, [block, arguments, *self.options(region)]))})"

    def options(self, region: Region) -> list[str]:
        """The keywords of `recompute` at a call of a region."""
        options = []
        if self.variant.name in REENTRANT:
            outer, inner = REENTRANT[self.variant.name]
            options.append(f"use_reentrant={inner if self.within else outer}")
        return options + self.option(region, "preserve_rng", "preserve_rng_state")

    # -- run -----------------------------------------------------------------------------------

    def write_inference(self) -> None:
        if self.static:
            static.write_inference(self)
        else:
            super().write_inference()

    def write_gradients(self) -> None:
        if self.static:
            static.write_gradients(self)
        else:
            super().write_gradients()

    def write_taken(self) -> None:
        code = self.code
        code("# Clearing a gradient empties the tensor that .grad gave out: copy it first.")
        code(f"taken = {self.taken_gradients()}")
        code("gradients = {n: None if g is None else g.clone() for n, g in taken.items()}")

    def write_part(self) -> None:
        code, wrt = self.code, self.case.wrt
        found = [f"gradient_of_{name}" for name in wrt]
        given = self.value(wrt[0]) if len(wrt) == 1 else self.items(wrt)
        code(f"({', '.join(found)}{',' * (len(wrt) == 1)}) = paddle.grad(loss, {given})", BACKWARD)
        entries = (f'"{name}": {one}' for name, one in zip(wrt, found, strict=True))
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

    def write_training(self) -> None:
        if self.static:
            static.write_training(self)
        else:
            super().write_training()


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
}
