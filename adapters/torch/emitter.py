"""How PyTorch writes a case: eager functions, `torch.utils.checkpoint.checkpoint` at each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from conformance.drivers.adapter import Variant
from conformance.emit import usual
from conformance.emit.accumulating import Accumulating
from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Call, Lists, Writer
from conformance.emit.expressions import function, listed
from conformance.model.case import Again, Array, Case, Generator, Region, Statement

from . import compiling as compiled
from . import method, selective, sequential, wrapper

_reduced = partial(usual.reduced, axis="dim", keepdims="keepdim")


def _conv2d(call: Call) -> str:
    stride = "" if call.options["stride"] == 1 else f", stride={call.options['stride']}"
    padding = "" if call.options["padding"] == "valid" else ', padding="same"'
    return f"F.conv2d({call.arguments['x']}, {call.arguments['w']}{stride}{padding})"


def _split(call: Call) -> str:
    x, sections, axis = call.arguments["x"], call.options["sections"], call.options["axis"]
    return f"torch.chunk({x}, {sections}, dim={axis})"


def _uniform(call: Call) -> str:
    low, high = call.options["low"], call.options["high"]
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
CUSTOM_SIN = """
    class CustomSin(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, reads):
            ctx.save_for_backward(x)
            ctx.reads = reads
            return torch.sin(x)

        @staticmethod
        def backward(ctx, g):
            for _ in range(ctx.reads):
                (x,) = ctx.saved_tensors
            return 2 * torch.cos(x) * g, None
    """
ASKING_SIN = """
    class AskingSin(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.sin(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * torch.cos(x) * g if x.requires_grad else None
    """
SLOPE_OF_SIN = """
    def slope_of_sin(x):
        (slope,) = torch.autograd.grad(torch.sin(x).sum(), x, create_graph=True)
        return slope
    """
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
ACCUMULATE_SIN = """
    def accumulate_sin(x, total):
        with torch.no_grad():
            total.add_(x.sum(0))
        return torch.sin(x)
    """


class Emitter(Accumulating):
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
        "custom_sin": CUSTOM_SIN,
        "asking_sin": ASKING_SIN,
        "slope_of_sin": SLOPE_OF_SIN,
        "accumulate_sin": ACCUMULATE_SIN,
    }
    operations: Mapping[str, Writer] = {
        **usual.OPERATORS,
        **usual.functions("torch"),
        "solve": "torch.linalg.solve({a}, {b})",
        "linear": "F.linear({x}, {w}, {b})",
        "conv2d": _conv2d,
        "max_pool2d": "F.max_pool2d({x}, {size})",
        "avg_pool2d": "F.avg_pool2d({x}, {size})",
        "batch_norm": "F.batch_norm({x}, {running_mean}, {running_var}, {gamma}, {beta}, "
        "training=True, momentum={momentum}, eps={eps})",
        "layer_norm": "F.layer_norm({x}, {gamma}.shape, {gamma}, {beta}, eps={eps})",
        "embedding": "F.embedding({indices}, {table})",
        "relu": "F.relu({x})",
        "gelu": "F.gelu({x})",
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
        "to_complex": "torch.complex({a}, {b})",
        "real": "torch.real({x})",
        "imag": "torch.imag({x})",
        "stop_gradient": "{x}.detach()",
        "asks_gradient": "{x}.requires_grad",
        "uniform": _uniform,
        "uniform_from": _uniform,
        "numpy_uniform": "torch.tensor(np.random.uniform({low}, {high}, {shape}), dtype=torch.float32)",
        "python_uniform": "torch.tensor(random.uniform({low}, {high}))",
        "rrelu": "F.rrelu({x}, {low}, {high}, training=True)",
        "custom_sin": "CustomSin.apply({x}, {reads})",
        "asking_sin": "AskingSin.apply({x})",
        "slope_of_sin": "slope_of_sin({x})",
        "accumulate_sin": "accumulate_sin({x}, {total})",
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

    def expression(self, statement: Statement) -> str:
        drawn_from = statement.names()[:1] if statement.op == "uniform_from" else ()
        numpy = [
            i.name for i in self.case.inputs if isinstance(i, Generator) and i.library == "numpy"
        ]
        if not set(drawn_from) & set(numpy):
            return super().expression(statement)
        call = self.call_of(statement)
        low, high, shape = (call.options[name] for name in ("low", "high", "shape"))
        numbers = f"{call.arguments['generator']}.uniform({low}, {high}, {shape})"
        return f"torch.tensor({numbers}, dtype=torch.float32)"

    def framework_generator(self, seed: int) -> str:
        return f"torch.Generator().manual_seed({seed})"

    def recompute(self, region: Region) -> str:
        return function(region.name) if self.variant.name == "memory-budget" else "checkpoint"

    def called(self, node: Region | Again, callee: str, region: Region) -> str:
        if self.path == "plain" or self.variant.name == "memory-budget":
            return super().called(node, callee, region)
        block = "None" if region.block == "invalid" else function(region.name)
        if self.own is not None:
            return self.own_call(block, self.call_arguments(node), region)
        words = [block, self.call_arguments(node), *self.options(region)]
        return f"checkpoint({', '.join(filter(None, words))})"

    def options(self, region: Region) -> list[str]:
        """The keywords of a region's call."""
        name = self.variant.name
        outer, inner = REENTRANT.get(name, (False, False))
        reentrant = inner if self.within else outer
        found = [] if name in ("defaults", "method") else [f"use_reentrant={reentrant}"]
        if not reentrant and (name in REENTRANT or name == "non-reentrant-whole"):
            found.append("early_stop=False")
        if name == "contexts":
            found.append("context_fn=contexts")
        found += self.option(region, "preserve_rng", "preserve_rng_state")
        return [*found, *self.contexts_option(region, "context_fn"), *self.misuse(region)]

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


class Sequential(sequential.Sequences, Emitter):
    """Writes one case for `sequential`."""

    shares = False  # a sequence is made where it is called
    imports = (*Emitter.imports, *sequential.IMPORTS)


class Wrapper(wrapper.Modules, selective.Policies, Emitter):
    """Writes one case for `wrapper`: a policy where a region has one."""

    shares, lists = False, "uncaptured"  # regions are modules
    imports = (*Emitter.imports, *wrapper.IMPORTS)

    def __init__(self, case: Case, variant: Variant) -> None:
        super().__init__(case, variant)
        if self.own is None and any(region.save for region in case.regions()):
            self.imports = (*self.imports, *selective.IMPORTS)


class Method(method.Methods, Emitter):
    """Writes one case for `method`."""

    shares, lists = False, "uncaptured"  # regions are methods
    list_of_parameters = "nn.ParameterList({})"
    imports = (*Emitter.imports, *method.IMPORTS)


class Compiled(selective.Policies, Emitter):
    """Writes one case for a variant that compiles: a policy where a region has one."""

    loops, shares = "nothing", False  # a graph tells operations apart by the lines that led to them
    imports = (*Emitter.imports, *compiled.IMPORTS)

    def __init__(self, case: Case, variant: Variant) -> None:
        super().__init__(case, variant)
        if any(region.save for region in case.regions()):
            self.imports = (*self.imports, *selective.IMPORTS)

    def options(self, region: Region) -> list[str]:
        found: list[str] = super().options(region)
        kept = region.save or region.contexts
        return found if kept else [o for o in found if not o.startswith("context_fn")]

    def write_before(self) -> None:
        for line in compiled.lines(self.variant.name, self.case.procedure.kind):
            self.code(line)

    def write_seeding(self, seed: int) -> None:
        super().write_seeding(seed)
        if self.case.sources() == {"numpy"}:
            # compiled code draws NumPy's numbers from PyTorch's generator
            self.code(self.seeding.format(seed=seed))


class Inside(Compiled):
    """Writes one case for `compiled-inside`: the functions of outermost regions are compiled, in
    `plain` and in `recomputed`. Regions inside them are compiled with them."""

    def write_before(self) -> None:
        for line in compiled.again(self.case.procedure.kind):
            self.code(line)

    def write_region(self, region: Region) -> None:
        outermost = {node.name for node in self.case.program if isinstance(node, Region)}
        if region.name in outermost:
            self.code(compiled.INSIDE)
        super().write_region(region)


OTHERS: Mapping[str, type[Emitter]] = {
    **dict.fromkeys(compiled.BACKENDS, Compiled),
    "compiled-inside": Inside,
    "contexts": Contexts,
    "method": Method,
    "selective": Selective,
    "sequential": Sequential,
    "wrapper": Wrapper,
}
