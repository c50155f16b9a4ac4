"""How PyTorch writes a case: eager functions, `torch.utils.checkpoint.checkpoint` at each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from conformance.drivers.adapter import Variant
from conformance.emit import usual
from conformance.emit.accumulating import CALLS, Accumulating, functions
from conformance.emit.calling import Calling
from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Call, Lists, Writer
from conformance.emit.expressions import listed
from conformance.emit.sequences import Sequences
from conformance.model.case import Again, Array, Case, Region, Segment

from . import compiling, method, selective, wrapper

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


class Emitter(Calling, Accumulating):
    """Writes one case for a variant; variants that need other code have a subclass below."""

    procedures_written = (
        *("backward", "part", "functional", "per_output", "second_backward"),
        *("second_order", "third_order", "inference", "train"),
    )
    imports: Sequence[str] = (
        "import random",
        "import numpy as np",
        "import torch",
        "import torch.nn.functional as F",
        "from torch.utils.checkpoint import checkpoint",
    )
    shares = True
    lists: Lists = "all"
    wrong_option = 'determinism_check="wrong"'
    seeding = "torch.manual_seed({seed})"
    drawing = "torch.rand(3)"
    without_gradients = "with torch.no_grad():"
    autocast = 'with torch.autocast("cpu", dtype=torch.{dtype}):'
    hook = 'values["{name}"].register_hook(lambda _: fired.append("{name}"))'
    halving = """
        with torch.no_grad():
            for name in {names}:
                values[name].mul_(0.5)
        """
    vmap = "torch.func.vmap"
    grad = "torch.autograd.grad"
    optimizer, clearing_all = "torch.optim.SGD({parameters}, lr={rate})", "optimizer.zero_grad()"
    clearing = "{tensor}.grad = None"
    helpers: Mapping[str, str] = {
        **Accumulating.helpers,
        **functions(
            module="torch",
            base="torch.autograd.Function",
            saved="saved_tensors",
            grad="torch.autograd.grad",
            gradients="2 * torch.cos(x) * g, None",
            asking="2 * torch.cos(x) * g if x.requires_grad else None",
        ),
    }
    operations: Mapping[str, Writer] = {
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
        "reshape": "{x}.reshape({shape})",
        "permute_dims": "{x}.permute({axes})",
        "concat": "torch.cat({arrays}, dim={axis})",
        "split": _split,
        "astype": "{x}.to(torch.{dtype})",
        "asks_gradient": "{x}.requires_grad",
        "uniform": _uniform,
        "uniform_from": _uniform,
        "numpy_uniform": "torch.tensor(np.random.uniform({low}, {high}, {shape}), dtype=torch.float32)",
        "python_uniform": "torch.tensor(random.uniform({low}, {high}))",
        "add_in_place": "{a}.add_({b})",
    }

    def __new__(cls, case: Case, variant: Variant) -> Emitter:
        own = variant.implementation
        name = "selective" if own is not None and "save" in own.options else variant.name
        return super().__new__(OTHERS.get(name, cls))

    def tensor(self, array: Array, source: str) -> str:
        gradient = ", requires_grad=True" if array.gradient else ""
        fill = array.fill
        if fill.kind == "full":
            shape = f"({array.shape[0]},)" if len(array.shape) == 1 else str(array.shape)
            number: object = fill.numbers[0] if "float" in array.dtype else int(fill.numbers[0])
            dtype = "" if array.dtype == "float32" else f", dtype=torch.{array.dtype}"
            return f"torch.full({shape}, {number}{dtype}{gradient})"
        return f"torch.tensor({source}, dtype=torch.{array.dtype}{gradient})"

    def framework_generator(self, seed: int) -> str:
        return f"torch.Generator().manual_seed({seed})"

    def recompute(self, region: Region) -> str:
        return "checkpoint"

    def options(self, region: Region) -> list[str]:
        """The keywords of a region's call."""
        name = self.variant.name
        outer, inner = REENTRANT.get(name, (False, False))
        reentrant = inner if self.within else outer
        keywords = [] if name in ("defaults", "method") else [f"use_reentrant={reentrant}"]
        if not reentrant and (name in REENTRANT or name == "non-reentrant-whole"):
            keywords.append("early_stop=False")
        if name == "contexts":
            keywords.append("context_fn=contexts")
        keywords += self.option(region, "preserve_rng", "preserve_rng_state")
        return [*keywords, *self.contexts_option(region, "context_fn"), *self.misuse(region)]

    # -- run -----------------------------------------------------------------------------------

    def write_part(self) -> None:
        self.code(f"loss.backward(inputs={self.items(self.case.wrt)})", BACKWARD)
        self.code(f"gradients = {self.taken_gradients()}")

    def write_functional(self) -> None:
        """The gradients by `torch.func`: the forward pass is run inside the transform."""
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


class Contexts(Emitter):
    """Writes one case for `contexts`."""

    imports = (*Emitter.imports, "from contextlib import contextmanager")

    def write_helpers(self) -> None:
        super().write_helpers()
        self.code(CONTEXTS)
        self.code("\n")


class Selective(selective.Policies, Emitter):
    """Writes one case for `selective`."""

    imports = (*Emitter.imports, *selective.IMPORTS)


class Sequential(Sequences, Emitter):
    """Writes one case for `sequential`."""

    shares = False  # a sequence is made where it is called
    imports = (*Emitter.imports, "from torch.utils.checkpoint import checkpoint_sequential")

    def sequential(self, region: Region, segment: Segment, handed: str) -> str:
        given = ["layers", str(segment.count), handed, "use_reentrant=False"]
        given += [] if region.preserve_rng else ["preserve_rng_state=False"]
        return f"checkpoint_sequential({', '.join(given)})"


class Modules(Emitter):
    """Writes one case for a variant whose regions are modules or their methods."""

    shares, lists = False, "uncaptured"
    imports = (*Emitter.imports, "from torch import nn")

    def tensor(self, array: Array, source: str) -> str:
        if array not in self.case.parameters:
            return super().tensor(array, source)
        data = super().tensor(replace(array, gradient=False), source)
        return f"nn.Parameter({data}{'' if array.gradient else ', requires_grad=False'})"


class Wrapper(wrapper.Wrapped, selective.Policies, Modules):
    """Writes one case for `wrapper`: a policy where a region has one."""

    imports = (*Modules.imports, *wrapper.IMPORTS)


class Method(method.Methods, Modules):
    """Writes one case for `method`."""

    list_of_parameters = "nn.ParameterList({})"


class Compiled(selective.Policies, Emitter):
    """Writes one case for a variant that compiles: a policy where a region has one."""

    loops, shares = "nothing", False  # a graph tells operations apart by the lines that led to them
    imports = (*Emitter.imports, *compiling.IMPORTS)

    def options(self, region: Region) -> list[str]:
        keywords = super().options(region)
        kept = region.save or region.contexts
        return keywords if kept else [o for o in keywords if not o.startswith("context_fn")]

    def write_before(self) -> None:
        for line in compiling.lines(self.variant.name, self.case.procedure.kind):
            self.code(line)

    def write_seeding(self, seed: int) -> None:
        super().write_seeding(seed)
        if self.case.sources() == {"numpy"}:
            # compiled code draws NumPy's numbers from PyTorch's generator
            self.code(self.seeding.format(seed=seed))


class Budget(Compiled):
    """Writes one case for `memory-budget`: regions are called as they are."""

    def called(self, node: Region | Again, callee: str, region: Region) -> str:
        return f"{self.place(region)}({self.call_arguments(node)})"


class Inside(Compiled):
    """Writes one case for `compiled-inside`: the functions of outermost regions are compiled, in
    `plain` and in `recomputed`. Regions inside them are compiled with them."""

    def write_before(self) -> None:
        for line in compiling.again(self.case.procedure.kind):
            self.code(line)

    def write_region(self, region: Region) -> None:
        if region in self.case.program:
            self.code(compiling.INSIDE)
        super().write_region(region)


OTHERS: Mapping[str, type[Emitter]] = {
    **dict.fromkeys(compiling.BACKENDS, Compiled),
    "memory-budget": Budget,
    "compiled-inside": Inside,
    "contexts": Contexts,
    "method": Method,
    "selective": Selective,
    "sequential": Sequential,
    "wrapper": Wrapper,
}
