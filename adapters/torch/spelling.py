"""How PyTorch writes a case: eager functions, `torch.utils.checkpoint.checkpoint` at each call."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.case import Again, Array, Region
from conformance.emit import BACKWARD, FORWARD, Call, Writer, function
from conformance.emit import Spelling as Base


def _axis(call: Call) -> str:
    axis, keepdims = call.options["axis"], call.options["keepdims"]
    if axis is None:
        return f"{call.arguments['x']}.{call.op}()"
    keep = ", keepdim=True" if keepdims else ""
    return f"{call.arguments['x']}.{call.op}(dim={axis}{keep})"


def _conv2d(call: Call) -> str:
    stride = "" if call.options["stride"] == 1 else f", stride={call.options['stride']}"
    padding = "" if call.options["padding"] == "valid" else ', padding="same"'
    return f"F.conv2d({call.arguments['x']}, {call.arguments['w']}{stride}{padding})"


def _split(call: Call) -> str:
    x, sections, axis = call.arguments["x"], call.options["sections"], call.options["axis"]
    return f"torch.tensor_split({x}, {sections}, dim={axis})"


def _uniform(call: Call) -> str:
    low, high = call.options["low"], call.options["high"]
    shape = ", ".join(map(str, call.options["shape"]))  # type: ignore[arg-type]
    if (low, high) == (0, 1):
        return f"torch.rand({shape})"
    return f"torch.empty({shape}).uniform_({low}, {high})"


class Spelling(Base):
    """Writes one case for `reentrant` or `non-reentrant`."""

    imports = (
        "import numpy as np",
        "import torch",
        "import torch.nn.functional as F",
        "from torch.utils.checkpoint import checkpoint",
    )
    seeding = "torch.manual_seed({seed})"
    without_gradients = "with torch.no_grad():"
    operations: Mapping[str, Writer] = {
        "add": "{a} + {b}",
        "subtract": "{a} - {b}",
        "multiply": "{a} * {b}",
        "divide": "{a} / {b}",
        "negative": "-{x}",
        "matmul": "{a} @ {b}",
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
        "tanh": "torch.tanh({x})",
        "sigmoid": "torch.sigmoid({x})",
        "sin": "torch.sin({x})",
        "cos": "torch.cos({x})",
        "exp": "torch.exp({x})",
        "log": "torch.log({x})",
        "softmax": "F.softmax({x}, dim={axis})",
        "dropout": "F.dropout({x}, p={p})",
        "sum": _axis,
        "mean": _axis,
        "reshape": "{x}.reshape({shape})",
        "permute_dims": "{x}.permute({axes})",
        "concat": "torch.cat({arrays}, dim={axis})",
        "split": _split,
        "astype": "{x}.to(torch.{dtype})",
        "stop_gradient": "{x}.detach()",
        "uniform": _uniform,
        "raise_if": "raise_if({x}, {flag})",
    }

    def tensor(self, array: Array, source: str) -> str:
        gradient = ", requires_grad=True" if array.gradient else ""
        fill = array.fill
        if fill.kind == "full":
            shape = f"({array.shape[0]},)" if len(array.shape) == 1 else str(array.shape)
            number: object = fill.numbers[0] if "float" in array.dtype else int(fill.numbers[0])
            dtype = "" if array.dtype == "float32" else f", dtype=torch.{array.dtype}"
            return f"torch.full({shape}, {number}{dtype}{gradient})"
        return f"torch.tensor({source}, dtype=torch.{array.dtype}{gradient})"

    def recompute(self, region: Region) -> str:
        return "checkpoint"

    def called(self, node: Region | Again, callee: str, region: Region) -> str:
        if self.path == "plain":
            return super().called(node, callee, region)
        block = "None" if region.block == "invalid" else function(region.name)
        arguments = self.call_arguments(node)
        options = f"use_reentrant={self.variant.name == 'reentrant'}"
        if not region.preserve_rng:
            options += ", preserve_rng_state=False"
        return f"checkpoint({', '.join(filter(None, [block, arguments, options]))})"

    # -- run -----------------------------------------------------------------------------------

    def _write_forward(self) -> None:
        self.code("outputs = forward(**values)", FORWARD)
        self.code(f"loss = {self._loss()}")

    def _loss(self) -> str:
        loss, place = self.case.loss, self.loss_place()
        assert loss is not None
        return place if loss.reduction == "none" else f"{place}.{loss.reduction}()"

    def _write_clearing(self) -> None:
        every = "for value in values.values():"
        with self.code.indent(every), self.code.indent("if isinstance(value, torch.Tensor):"):
            self.code("value.grad = None")

    def _gradients(self) -> str:
        return "{" + ", ".join(f'"{n}": values["{n}"].grad' for n in self.case.wrt) + "}"

    def write_gradients(self) -> None:
        code, kind = self.code, self.case.procedure.kind
        self._write_forward()
        results = ['"outputs": outputs', '"losses": [loss]', '"gradients": gradients']
        if kind == "second_order":
            wanted = ", ".join(f'"{n}"' for n in self.case.wrt)
            code(f"wanted = [values[name] for name in ({wanted},)]")
            code("first = torch.autograd.grad(loss, wanted, create_graph=True)", BACKWARD)
            code(f"gradients = dict(zip(({wanted},), first))")
            code("total = sum(gradient.sum() for gradient in first)")
            code("second = torch.autograd.grad(total, wanted, allow_unused=True)")
            code(f"again = dict(zip(({wanted},), second))")
            results.append('"again": again')
        elif kind == "second_backward":
            code("loss.backward(retain_graph=True)", BACKWARD)
            code(f"gradients = {self._gradients()}")
            self._write_clearing()
            code("loss.backward()", BACKWARD)
            code(f"again = {self._gradients()}")
            results.append('"again": again')
        else:
            code("loss.backward()", BACKWARD)
            code(f"gradients = {self._gradients()}")
        code(f"return {{{', '.join(results)}{self.state_entry()}}}")

    def write_training(self) -> None:
        code, case = self.code, self.case
        trained = [p.name for p in case.parameters if p.gradient]
        listed = ", ".join(f'values["{name}"]' for name in trained)
        code(f"optimizer = torch.optim.SGD([{listed}], lr={case.procedure.learning_rate})")
        code("losses = []")
        with code.indent(f"for _ in range({case.procedure.steps}):"):
            self._write_clearing()
            self._write_forward()
            code("loss.backward()", BACKWARD)
            code("optimizer.step()")
            code("losses.append(loss.detach())")
        code(
            f"""
            return {{
                "outputs": outputs,
                "losses": losses,
                "gradients": {self._gradients()},
                "parameters": {self.chosen(case.parameters)},
                "state": {self.chosen(case.state)},
            }}
            """
        )
