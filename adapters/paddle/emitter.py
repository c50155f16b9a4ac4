"""How PaddlePaddle writes a case: `recompute` at each call of a region.

In dynamic mode, as it is or compiled by `to_static`; or as a static graph (`static.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from conformance.drivers.adapter import Variant
from conformance.emit import usual
from conformance.emit.accumulating import CALLS, Accumulating, functions
from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import (
    PROCEDURES,
    RAISE_IF,
    Call,
    Emitter,
    Forward,
    Parts,
    Tensors,
    Words,
    Writer,
)
from conformance.emit.expressions import elements, listed, numpy_fill, unless_default
from conformance.emit.forward import Sequences
from conformance.emit.recompute import Calling
from conformance.emit.transforms import Transforms
from conformance.errors import NotOfferedError
from conformance.language.backward import TOLD, backward, overwritten
from conformance.language.flow import Flow
from conformance.model.case import Array, Case, Region, Segment

from . import layers, parallel, static

#: Whether outermost regions are reentrant, and whether regions inside others are.
REENTRANT = {
    "reentrant": (True, True),
    "hook": (False, False),
    "reentrant-around-hook": (True, False),
    "hook-around-reentrant": (False, True),
    "model-fit-hook": (False, False),
}

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


OPERATIONS: Mapping[str, Writer] = {
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
    "slice": usual.sliced,
    "reshape": "paddle.reshape({x}, {shape})",
    "permute_dims": "paddle.transpose({x}, {axes})",
    "concat": "paddle.concat({arrays}, axis={axis})",
    "split": "paddle.split({x}, {sections}, axis={axis})",
    "astype": '{x}.astype("{dtype}")',
    "to_default": "{x}.astype(paddle.get_default_dtype())",
    "asks_gradient": "not {x}.stop_gradient",
    "uniform": _uniform,
    "uniform_from": 'paddle.to_tensor({generator}.uniform({low}, {high}, {shape}), dtype="float32")',
    "numpy_uniform": 'paddle.to_tensor(np.random.uniform({low}, {high}, {shape}), dtype="float32")',
    "python_uniform": 'paddle.to_tensor(random.uniform({low}, {high}), dtype="float32")',
    "add_in_place": _add_in_place,
    **parallel.OPERATIONS,
}
HELPERS: Mapping[str, str] = {
    "raise_if": RAISE_IF,
    **functions(
        module="paddle",
        base="paddle.autograd.PyLayer",
        saved="saved_tensor()",
        grad="paddle.grad",
        gradients="2 * paddle.cos(x) * g",
        asks="not x.stop_gradient",
        asking="None if x.stop_gradient else 2 * paddle.cos(x) * g",
    ),
    **parallel.HELPERS,
}
WORDS = Words(
    procedures_written=(*PROCEDURES, "jvp"),
    reverse_only=("custom_sin", "asking_sin", "hooked", *parallel.OPERATIONS),
    imports=(
        "import random",
        "import numpy as np",
        "import paddle",
        "import paddle.nn.functional as F",
        "from paddle.distributed.fleet.utils import recompute",
    ),
    operations=OPERATIONS,
    helpers=HELPERS,
    lists="all",
    seeding="paddle.seed({seed})",
    drawing="paddle.rand([1])",
    without_gradients="with paddle.no_grad():",
    default_dtype='paddle.set_default_dtype("{dtype}")',
    hook='values["{name}"].register_hook(lambda _: fired.append("{name}"))',
    halving="""
        with paddle.no_grad():
            for name in {names}:
                values[name].scale_(0.5)
        """,
    orders={
        **dict.fromkeys(("gelu", "max", "cumulative_sum", "softmax", "dropout", "layer_norm"), 1),
        **dict.fromkeys(("batch_norm", "embedding", "max_pool2d", "rrelu", "solve"), 1),
        **dict.fromkeys(("divide", "relu", "square", "sqrt", "avg_pool2d"), 2),
    },
    rank="dist.get_rank()",
    start=parallel.START,
    data_parallel="paddle.DataParallel",
    once=(
        "custom_sin",
        "asking_sin",
        *parallel.OPERATIONS,
    ),  # a second pass through a PyLayer ends the process
    asking={  # else the process ends, the gradient of x is wrong, or that of the other one is `None`
        "solve": (("a", "b"), ("b", "a")),
        "layer_norm": (("x", "gamma"),),
        "batch_norm": (("gamma", "beta"), ("beta", "gamma")),
    },
    halving_one="""
        with paddle.no_grad():
            values["{name}"].scale_(0.5)
        """,
    holds="tensors",
    changes={
        "freeze": "{place}.stop_gradient = True",
        "unfreeze": "{place}.stop_gradient = False",
        "assign": "with paddle.no_grad():\n    {place}.scale_(0.5)",
        "replace": "{place} = paddle.nn.Parameter(0.5 * {place}.detach())",
        "rows": "{place} = {place}.detach()[:{rows}]\n{asks}",
        "asks": "{place}.stop_gradient = False",
    },
)


class PaddleTensors(Tensors):
    """Tensors, and parameters."""

    parameter = "paddle.nn.Parameter"

    def tensor(self, array: Array, source: str) -> str:
        made = self.filled(array, source)
        if array in self.case.parameters:
            frozen = "" if array.gradient else ", requires_grad=False"
            return f"{self.parameter}({made}{frozen})"
        if array.gradient:
            made = f'paddle.to_tensor({source}, dtype="{array.dtype}", stop_gradient=False)'
        return made

    def filled(self, array: Array, source: str) -> str:
        """The expression of a tensor, which requires no gradient."""
        if array.dtype == "float32" and array.fill.kind == "full" and source == numpy_fill(array):
            number = array.fill.numbers[0]
            if number in (0, 1):
                return f"paddle.{'ones' if number else 'zeros'}({list(array.shape)})"
            return f"paddle.full({list(array.shape)}, {number})"
        if array.fill.kind == "values":
            source = elements(array, source)
        return f'paddle.to_tensor({source}, dtype="{array.dtype}")'


class ParametersOfLayers(PaddleTensors):
    """The same where layers have the parameters."""

    parameter = "nn.Parameter"

    layers: layers.Layers

    def tensor(self, array: Array, source: str) -> str:
        turned = array.name in self.layers.turned
        return super().tensor(array, f"({source}).T" if turned else source)


class PaddleRecompute(Calling):
    """`recompute` at each call of a region."""

    callee = "recompute"

    def write_helpers(self) -> None:
        if self.case.parallel:
            self.code(parallel.LAYER)

    def keywords(self, region: Region) -> list[str]:
        kept = [*super().keywords(region), *self.misuse(region)]
        if self.variant.name not in REENTRANT:
            return kept
        outer, inner = REENTRANT[self.variant.name]
        return [f"use_reentrant={inner if self.emitter.within else outer}", *kept]


class PaddleRun(Accumulating):
    """`loss.backward()`, and `paddle.grad`."""

    grad = "paddle.grad"
    clearing_all = "optimizer.clear_grad(set_to_zero=False)"
    clearing = "{tensor}.clear_gradient(set_to_zero=False)"

    @property
    def optimizer(self) -> str:  # type: ignore[override]
        parameters = "network.parameters()" if self.forward.makes_network else "{parameters}"
        return f"paddle.optimizer.SGD(learning_rate={{rate}}, parameters={parameters})"

    def write_hooks(self) -> None:
        """`paddle.grad` calls no hook of a tensor whose gradient it returns."""
        kind = self.case.procedure.kind
        if self.case.hooks and kind in (*TOLD, "functional"):
            raise NotOfferedError(self.variant.id, f"hooks where the procedure is {kind}")
        super().write_hooks()

    def write_taken(self) -> None:
        code = self.code
        code("# Clearing a gradient empties the tensor that .grad gave out: copy it first.")
        code(f"taken = {self.values.gradients()}")
        code("gradients = {n: None if g is None else g.clone() for n, g in taken.items()}")

    def write_part(self) -> None:
        code, wrt = self.code, self.case.wrt
        gradients = [f"gradient_of_{name}" for name in wrt]
        given = self.values.value(wrt[0]) if len(wrt) == 1 else self.values.items(wrt)
        unused = ", allow_unused=True" if self.given(1) else ""
        made = f"({', '.join(gradients)}{',' * (len(wrt) == 1)})"
        code(f"{made} = paddle.grad(loss, {given}{unused})", BACKWARD)
        entries = (f'"{name}": {one}' for name, one in zip(wrt, gradients, strict=True))
        code(f"gradients = {{{', '.join(entries)}}}")

    def write_functional(self) -> None:
        """The gradients by `vjp` of a function, inside which the forward pass is run."""
        self.refuse_orders(2)  # vjp keeps the graph of the gradients
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

    def write_main(self) -> None:
        if isinstance(self.values, layers.Turned):
            self.values.write_helpers()
        super().write_main()


class ForwardMode(Transforms):
    """`paddle.incubate.autograd.jvp`."""

    def write(self) -> None:
        code, wrt = self.code, self.case.wrt
        self.run.write_before()
        self.run.refuse_orders(3)  # two passes in reverse mode, which keep their graph
        code("seen = []")
        self.write_function("output_of", self.place)
        code(f"wanted = {self.values.items(wrt)}")
        given = "output_of, wanted, [tensor.detach() for tensor in wanted]"
        code(f"_, tangent = paddle.incubate.autograd.jvp({given})")
        code("outputs = seen[0]")


class Sequential(Sequences):
    """`recompute_sequential` of a list of layers."""

    def sequential(self, region: Region, segment: Segment, handed: str) -> str:
        options = f'"segments": {segment.count}'
        options += "" if region.preserve_rng else ', "preserve_rng_state": False'
        return f"recompute_sequential({{{options}}}, layers, {handed})"


class ToStatic(Forward):
    """A forward pass that has to become one graph."""

    full_graph = True

    def write_forward(self, path: str) -> None:
        self.code(f"@paddle.jit.to_static(full_graph={self.full_graph})")
        super().write_forward(path)


class Mixed(ToStatic):
    """A forward pass of which Python runs what cannot be compiled."""

    full_graph = False


PARTS = Parts(WORDS, PaddleTensors, PaddleRecompute, PaddleRun, transforms=ForwardMode)
EAGER = PARTS.but(shares=True)  # regions are functions that Python runs each time
LAYERS = PARTS.but(
    "from paddle import nn",
    lists="uncaptured",  # layers hold what they capture
    list_of_parameters="nn.ParameterList({})",
    tensors=ParametersOfLayers,
    layers=layers.Layers,
    forward=layers.Networks,
    values=layers.Turned,
)
FIT = LAYERS.but(procedures_written=("train",), run=layers.Fits)
VARIANTS: Mapping[str, Parts] = {
    "dynamic": PARTS,
    **dict.fromkeys(("reentrant", "hook", "defaults"), EAGER),
    **dict.fromkeys(("reentrant-around-hook", "hook-around-reentrant"), EAGER),
    "layers": LAYERS,
    "model-fit": FIT,
    "model-fit-hook": FIT,
    "pir-pass": PARTS.but(
        lists="nothing",  # what is fed has a name each
        loops="nothing",  # operations are distinguished by the lines that led to them
        imports=static.IMPORTS,
        operations={**OPERATIONS, **static.OPERATIONS},
        helpers={**HELPERS, **static.HELPERS},
        tensors=static.Fed,
        body=static.Body,
        run=static.Graphs,
    ),
    "sequential": PARTS.but(
        "from paddle.incubate.distributed.fleet import recompute_sequential", forward=Sequential
    ),
    "to-static-ast": PARTS.but(
        helpers={**HELPERS, "accumulate_sin": static.ACCUMULATE_SIN}, forward=ToStatic
    ),
    "to-static-sot": PARTS.but(forward=Mixed),
}


def emitter(case: Case, variant: Variant) -> Emitter:
    """What writes a case for a variant. Raises `NotOfferedError` where a tensor is changed that a
    `PyLayer` has saved: it reads it as it is in backward, without recompute too. And where a hook is on
    what a `PyLayer` returns: what the hook returns is not used, without recompute too. And where a
    convolution is differentiated three times: a part of the gradient is missing, without recompute
    too."""
    if case.procedure.order > 2 and case.uses(frozenset({"conv2d"})):
        raise NotOfferedError(variant.id, "third-order gradients of a convolution")
    of = backward(Flow(case))
    own = [step for step in of.every if step.statement.op in ("custom_sin", "asking_sin")]
    if any(overwritten(of, step) for step in own if step in of.steps):
        raise NotOfferedError(variant.id, "changes of what a PyLayer has saved")
    returned = {tensor for step in own for tensor in step.makes}
    hooking = (step for step in of.every if step.statement.op == "hooked")
    if any(not returned.isdisjoint(step.read()) for step in hooking):
        raise NotOfferedError(variant.id, "hooks on what a PyLayer returns")
    parts = VARIANTS.get(variant.name, EAGER)
    if case.ranks > 1:
        parts = parts.but(*parallel.IMPORTS)
    if case.parallel:
        parts = parts.but(lists="nothing")
    return Emitter(case, variant, parts)
