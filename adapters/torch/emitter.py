"""How PyTorch writes a case: eager functions, `torch.utils.checkpoint.checkpoint` at each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from conformance.drivers.adapter import CPU, Variant
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
from conformance.emit.expressions import listed
from conformance.emit.forward import Sequences
from conformance.emit.part import FURTHER
from conformance.emit.recompute import Calling
from conformance.emit.transforms import Transforms
from conformance.errors import NotOfferedError
from conformance.language.flow import returned
from conformance.model.case import Again, Array, Case, Literal, Region, Segment, Tree
from conformance.model.containers import Object

from . import compiling, method, parallel, selective, sharded, split, wrapper
from .selective import Policies

#: Lines of `run`, by variant and procedure.
Lines = Callable[[str, str], list[str]]

_reduced = partial(usual.reduced, axis="dim", keepdims="keepdim")


def _split(call: Call) -> str:
    x, sections, axis = call.arguments["x"], call.options["sections"], call.options["axis"]
    return f"torch.chunk({x}, {sections}, dim={axis})"


def _uniform(call: Call) -> str:
    low, high = call.options["low"], call.options["high"]
    if call.of_numpy:
        drawn = f"{call.arguments['generator']}.uniform({low}, {high}, {call.options['shape']})"
        return f"torch.tensor({drawn}, dtype=torch.float32)"
    shape = ", ".join(map(str, call.options["shape"]))  # type: ignore[arg-type]
    source = call.arguments.get("generator", "")
    generator = f", generator={source}" if source else ""
    if (low, high) == (0, 1):
        return f"torch.rand({shape}{generator})"
    return f"torch.empty({shape}).uniform_({low}, {high}{generator})"


#: Whether outermost regions are reentrant, and whether regions inside others are.
REENTRANT = {
    "reentrant": (True, True),
    "reentrant-around-non-reentrant": (True, False),
    "non-reentrant-around-reentrant": (False, True),
}
#: Operations whose second derivatives are wrong or raise an error, without recompute, too, where forward
#: mode takes one of both.
NOT_TWICE = {
    "gradient_of_jvp": ("batch_norm", "layer_norm", "softmax", "solve"),
    "jvp_of_gradient": ("solve",),
}
#: Two contexts of a user's own, in which forward and rerun each leave a note.
CONTEXTS = """
    entered = []


    @contextmanager
    def noting(note):
        entered.append(note)
        yield


    def contexts():
        return noting("forward"), noting("rerun")
    """


OPERATIONS: Mapping[str, Writer] = {
    **usual.OPERATORS,
    **usual.functions("torch"),
    **usual.neural("torch", "F"),
    **CALLS,
    "linear": "F.linear({x}, {w}, {b})",
    "batch_norm": "F.batch_norm({x}, {running_mean}, {running_var}, {gamma}, {beta}, "
    "training=True, momentum={momentum}, eps={eps})",
    "layer_norm": "F.layer_norm({x}, {gamma}.shape, {gamma}, {beta}, eps={eps})",
    "sigmoid": "torch.sigmoid({x})",
    "max": "torch.amax({x}, dim={axis}, keepdim={keepdims})",
    "cumulative_sum": "torch.cumsum({x}, dim={axis})",
    "softmax": "F.softmax({x}, dim={axis})",
    "dropout": "F.dropout({x}, p={p})",
    "sum": _reduced,
    "mean": _reduced,
    "slice": usual.sliced,
    "reshape": "{x}.reshape({shape})",
    "permute_dims": "{x}.permute({axes})",
    "broadcast_to": "{x}.expand({shape})",
    "concat": "torch.cat({arrays}, dim={axis})",
    "split": _split,
    "astype": "{x}.to(torch.{dtype})",
    "to_default": "{x}.to(torch.get_default_dtype())",
    "asks_gradient": "{x}.requires_grad",
    "uniform": _uniform,
    "uniform_from": _uniform,
    "numpy_uniform": "torch.tensor(np.random.uniform({low}, {high}, {shape}), dtype=torch.float32)",
    "python_uniform": "torch.tensor(random.uniform({low}, {high}))",
    "add_in_place": "{a}.add_({b})",
    **parallel.OPERATIONS,
}
WORDS = Words(
    procedures_written=(*PROCEDURES, *FURTHER),
    imports=(
        "import random",
        "import numpy as np",
        "import torch",
        "import torch.nn.functional as F",
        "from torch.autograd import forward_ad",
        "from torch.utils.checkpoint import checkpoint",
    ),
    operations=OPERATIONS,
    helpers={
        "raise_if": RAISE_IF,
        **parallel.HELPERS,
        **functions(
            module="torch",
            base="torch.autograd.Function",
            saved="saved_tensors",
            grad="torch.autograd.grad",
            gradients="2 * torch.cos(x) * g, None",
            asks="x.requires_grad",
            asking="2 * torch.cos(x) * g if x.requires_grad else None",
        ),
    },
    # the third order takes the saved mean and deviation for constants, and is wrong:
    # https://github.com/pytorch/pytorch/issues/175754 and https://github.com/pytorch/pytorch/issues/186256
    orders={"layer_norm": 2, "batch_norm": 2},
    reverse_only=("custom_sin", "asking_sin", "hooked"),
    rank="dist.get_rank()",
    start=parallel.START,
    data_parallel="DistributedDataParallel",
    shares=True,
    lists="all",
    wrong_option='determinism_check="wrong"',
    seeding="torch.manual_seed({seed})",
    drawing="torch.rand(3)",
    without_gradients="with torch.no_grad():",
    default_dtype="torch.set_default_dtype(torch.{dtype})",
    autocast='with torch.autocast("cpu", dtype=torch.{dtype}):',
    hook='values["{name}"].register_hook(lambda _: fired.append("{name}"))',
    halving="""
        with torch.no_grad():
            for name in {names}:
                values[name].mul_(0.5)
        """,
    vmap="torch.func.vmap",
    holds="tensors",
    changes={
        "freeze": "{place}.requires_grad_(False)",
        "unfreeze": "{place}.requires_grad_()",
        "assign": "with torch.no_grad():\n    {place}.mul_(0.5)",
        "replace": "{place} = (0.5 * {place}.detach()){asks}",
        "rows": "{place} = {place}.detach()[:{rows}]{asks}",
        "asks": ".requires_grad_()",
    },
)


class TorchTensors(Tensors):
    """Tensors that require a gradient or do not."""

    def tensor(self, array: Array, source: str) -> str:
        if self.case.parallel and array in self.case.parameters:
            made = self.made(replace(array, gradient=False), source)
            return f"nn.Parameter({made}{'' if array.gradient else ', requires_grad=False'})"
        return self.made(array, source)

    def made(self, array: Array, source: str) -> str:
        gradient = ", requires_grad=True" if array.gradient else ""
        fill = array.fill
        if fill.kind == "full":
            shape = f"({array.shape[0]},)" if len(array.shape) == 1 else str(array.shape)
            number: object = fill.numbers[0] if "float" in array.dtype else int(fill.numbers[0])
            dtype = "" if array.dtype == "float32" else f", dtype=torch.{array.dtype}"
            return f"torch.full({shape}, {number}{dtype}{gradient})"
        return f"torch.tensor({source}, dtype=torch.{array.dtype}{gradient})"

    def framework_generator(self, seed: int) -> str:
        device = self.words.device and f'"{self.words.device}"'
        return f"torch.Generator({device}).manual_seed({seed})"


class Parameters(TorchTensors):
    """Parameters of modules."""

    def tensor(self, array: Array, source: str) -> str:
        if array not in self.case.parameters:
            return super().tensor(array, source)
        data = self.made(replace(array, gradient=False), source)
        return f"nn.Parameter({data}{'' if array.gradient else ', requires_grad=False'})"


class Checkpoint(Calling):
    """`checkpoint`, with a region's policy as contexts if it is given `policies`. With `direct`, regions
    are called as they are, because they are wrapped before, or because the compiler decides."""

    def __init__(
        self, emitter: Emitter, policies: type[Policies] | None = None, direct: bool = False
    ) -> None:
        super().__init__(emitter)
        self.policies = None if policies is None else policies(emitter)
        self.direct = direct

    def write_helpers(self) -> None:
        if self.case.parallel:
            self.code(parallel.MODULE if self.wraps_network else sharded.WHOLE)
        if self.case.split:
            self.code(split.MESH)
        if self.policies is not None:
            self.policies.write_helpers()
        if self.variant.name == "contexts":
            self.code(CONTEXTS)

    def policy(self, region: Region) -> str:
        return super().policy(region) if self.policies is None else self.policies.policy(region)

    def contexts_option(self, region: Region, keyword: str) -> list[str]:
        if self.own is None and region.contexts and region.save:  # a call has one `context_fn`
            raise NotOfferedError(self.variant.id, "a policy and contexts of one region")
        return super().contexts_option(region, keyword)

    def called(self, node: Region | Again, region: Region) -> str:
        if not self.direct:
            return super().called(node, region)
        return f"{self.forward.place(region)}({self.forward.call_arguments(node)})"

    def keywords(self, region: Region) -> list[str]:
        name = self.variant.name
        outer, inner = REENTRANT.get(name, (False, False))
        reentrant = inner if self.emitter.within else outer
        keywords = [] if name in ("defaults", "method") else [f"use_reentrant={reentrant}"]
        if not reentrant and (name in REENTRANT or name == "non-reentrant-whole"):
            keywords.append("early_stop=False")
        if name == "contexts":
            keywords.append("context_fn=contexts")
        keywords += self.option(region, "preserve_rng", "preserve_rng_state")
        keywords += [*self.contexts_option(region, "context_fn"), *self.misuse(region)]
        kept = self.policies is not None and self.policies.keeps(region)
        return [*keywords, f"context_fn={self.policy(region)}"] if kept else keywords


class TorchRun(Accumulating):
    """`loss.backward()`, and `torch.func`; `compiled` gives the lines that have `forward` compiled."""

    grad = "torch.autograd.grad"
    optimizer, clearing_all = "torch.optim.SGD({parameters}, lr={rate})", "optimizer.zero_grad()"
    clearing = "{tensor}.grad = None"

    def __init__(self, emitter: Emitter, compiled: Lines | None = None) -> None:
        super().__init__(emitter)
        self.compiled = compiled

    def write_before(self) -> None:
        super().write_before()
        spread = self.case.parallel and not self.wraps_network
        if spread and self.forward.makes_network:
            self.code(f"values |= {self.forward.held_parameters()}")
        if self.compiled is not None:
            for line in self.compiled(self.variant.name, self.case.procedure.kind):
                self.code(line)

    def write_seeding(self, seed: int) -> None:
        super().write_seeding(seed)
        if self.compiled is not None and self.case.sources() == {"numpy"}:
            # compiled code draws NumPy's numbers from PyTorch's generator
            self.code(self.words.seeding.format(seed=seed))

    def write_part(self) -> None:
        self.code(f"loss.backward(inputs={self.values.items(self.case.wrt)})", BACKWARD)
        self.code(f"gradients = {self.values.gradients()}")

    def write_functional(self) -> None:
        """The gradients by `torch.func`: the forward pass is run inside the transform, which returns
        tensors in tuples, lists and dicts, and nothing else."""
        if not all(map(_of_tensors, returned(self.case))):
            raise NotOfferedError(self.variant.id, "outputs of torch.func other than tensors")
        code, wanted = self.code, listed(self.case.wrt)
        code(f"wanted = {{name: values[name].detach() for name in {wanted}}}")
        with code.indent("def loss_of(wanted):"):
            code("outputs = forward(**values | wanted)", FORWARD)
            code(f"return {self.loss()}, outputs", BACKWARD)
        call = "torch.func.grad_and_value(loss_of, has_aux=True)(wanted)"
        code(f"gradients, (loss, outputs) = {call}")
        code(
            f'return {{"outputs": outputs, "losses": [loss], "gradients": gradients'
            f"{self.state_entry()}}}"
        )


def _of_tensors(tree: Tree) -> bool:
    parts = tree.values() if isinstance(tree, Mapping) else tree if isinstance(tree, tuple) else ()
    return not isinstance(tree, Literal | Object) and all(map(_of_tensors, parts))


class ForwardMode(Transforms):
    """Dual tensors, and `jacobian`."""

    def write(self) -> None:
        self.run.write_before()
        if self.case.procedure.kind == "jacobian":
            self._write_jacobian()
        else:
            self._write_dual()

    def _write_jacobian(self) -> None:
        """All rows in one backward pass, of batched cotangents."""
        code, wrt = self.code, listed(self.case.wrt)
        code("seen = []")
        self.write_function("output_of", self.place)
        code(f"wanted = {self.values.items(self.case.wrt)}")
        given = "output_of, tuple(wanted), vectorize=True"
        code(f"rows = torch.autograd.functional.jacobian({given})")
        code(f"gradients, outputs = dict(zip({wrt}, rows)), seen[0]")

    def _write_dual(self) -> None:
        """Forward mode by dual tensors; gradients are taken of them, or of their tangents."""
        code, wrt, kind = self.code, listed(self.case.wrt), self.case.procedure.kind
        for op in NOT_TWICE.get(kind, ()):
            if self.case.uses({op}):
                raise NotOfferedError(self.variant.id, f"{kind} of {op}")
        with code.indent("with forward_ad.dual_level():"):
            dual = "forward_ad.make_dual(values[name], values[name].detach())"
            code(f"wanted = {{name: {dual} for name in {wrt}}}")
            code("outputs = forward(**values | wanted)", FORWARD)
            if kind != "jvp_of_gradient":
                code(f"tangent = forward_ad.unpack_dual({self.place}).tangent")
            else:
                given = f"{self.run.loss()}, [*wanted.values()]"
                code(f"taken = torch.autograd.grad({given}, allow_unused=True)", BACKWARD)
                code(f"gradients = {{n: g for n, g in zip({wrt}, taken) if g is not None}}")
                tangent = "forward_ad.unpack_dual(gradient).tangent"
                code(f"again = {{name: {tangent} for name, gradient in gradients.items()}}")
        if kind == "gradient_of_jvp":
            given = f"{self.reduced('tangent')}, {self.values.items(self.case.wrt)}"
            taken = f"torch.autograd.grad({given}, allow_unused=True)"
            if self.run.constant(2):
                taken = f"[None] * {len(self.case.wrt)}"
            code(f"taken = {taken}", BACKWARD)
            code(f"again = dict(zip({wrt}, taken))")


class Sequential(Sequences):
    """`checkpoint_sequential` of a list of layers."""

    def sequential(self, region: Region, segment: Segment, handed: str) -> str:
        given = ["layers", str(segment.count), handed, "use_reentrant=False"]
        given += [] if region.preserve_rng else ["preserve_rng_state=False"]
        return f"checkpoint_sequential({', '.join(given)})"


class Inside(Forward):
    """The functions of outermost regions are compiled, in `plain` and in `recomputed`. Regions inside
    them are compiled with them."""

    def write_region(self, region: Region) -> None:
        if region in self.case.program:
            self.code(compiling.INSIDE)
        super().write_region(region)


EAGER = Parts(WORDS, TorchTensors, Checkpoint, TorchRun, transforms=ForwardMode)
SELECTIVE = EAGER.but(*selective.IMPORTS, recompute=partial(Checkpoint, policies=Policies))
COMPILED = EAGER.but(
    *compiling.IMPORTS,
    holds="",  # what is compiled is a function
    loops="nothing",  # operations are distinguished by the lines that led to them
    shares=False,
    recompute=partial(Checkpoint, policies=selective.Traced),
    run=partial(TorchRun, compiled=compiling.lines),
)
MODULES = EAGER.but("from torch import nn", shares=False, lists="uncaptured", tensors=Parameters)
OWN_MODULES = MODULES.but(
    recompute=partial(Checkpoint, policies=Policies),
    layers=wrapper.Layers,
    forward=wrapper.Wrapped,
)
#: Variants that are written in another way than the eager ones.
VARIANTS: Mapping[str, Parts] = {
    "compiled-aot-eager": COMPILED,
    "compiled-eager": COMPILED.but(recompute=partial(Checkpoint, policies=selective.Compiled)),
    "compiled-inductor": COMPILED,
    "memory-budget": COMPILED.but(
        recompute=partial(Checkpoint, policies=selective.Compiled, direct=True)
    ),
    "compiled-inside": COMPILED.but(
        forward=Inside, run=partial(TorchRun, compiled=compiling.again)
    ),
    "contexts": EAGER.but("from contextlib import contextmanager"),
    "method": MODULES.but(
        list_of_parameters="nn.ParameterList({})", layers=method.Layers, forward=method.Methods
    ),
    "selective": SELECTIVE,
    "sequential": EAGER.but(
        "from torch.utils.checkpoint import checkpoint_sequential",
        shares=False,  # a sequence is made where it is called
        forward=Sequential,
    ),
    "modules": OWN_MODULES,
    "wrapper": OWN_MODULES.but(
        *wrapper.IMPORTS, recompute=partial(Checkpoint, policies=Policies, direct=True)
    ),
}


def emitter(case: Case, variant: Variant) -> Emitter:
    """What writes a case for a variant."""
    own = variant.implementation
    parts = VARIANTS.get(variant.name, EAGER)
    if own is not None and "save" in own.options and parts is EAGER:
        parts = SELECTIVE
    elif any(region.save for region in case.regions()):
        parts = parts.but(*selective.IMPORTS)
    if case.ranks > 1:
        parts = parts.but(*parallel.IMPORTS)
    if case.parallel:
        parts = parts.but(lists="nothing")
    if case.parallel in ("sharded", "tensor"):
        parts = parts.but(
            *sharded.IMPORTS, shares=False, forward=sharded.Spread, values=sharded.Values
        )
    if case.split:
        parts = parts.but(*split.IMPORTS, layers=split.Layers)
    if variant.device != CPU:
        parts = parts.but(
            first=f'torch.set_default_device("{variant.device}")',
            device=variant.device,
            autocast=WORDS.autocast.replace(CPU, variant.device),
        )
    return Emitter(case, variant, parts)
