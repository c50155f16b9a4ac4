"""How a program for `mini` is written."""

from __future__ import annotations

from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Emitter, Forward, Parts, Recompute, Run, Tensors, Words
from conformance.emit.expressions import function

WORDS = Words(
    imports=("import numpy as np", "import mini"),
    operations={
        "multiply": "mini.mul({a}, {b})",
        "add": "mini.add({a}, {b})",
        "sin": "mini.sin({x})",
    },
)


class MiniTensors(Tensors):
    def tensor(self, array, source):
        return f"mini.Tensor({source})"


class MiniForward(Forward):
    def write_forward(self, path):
        super().write_forward(path)
        if path == "plain" and self.variant.name == "plain-raising":
            at = next(i for i, line in enumerate(self.code.lines) if line.startswith("def plain"))
            self.code.lines.insert(at + 1, '    raise OSError("no device")')


class MiniRecompute(Recompute):
    def made_once(self, region):
        return False

    def checkpoint(self, region):
        way = f', "{self.variant.name}"' if self.variant.name != "right" else ""
        return f"mini.recompute({function(region.name)}{way})"


class MiniRun(Run):
    def write_run(self):
        names = ", ".join(f'"{name}"' for name in self.case.wrt)
        with self.code.indent("def run(forward):"):
            self.code("values = inputs()")
            self.code("outputs = forward(**values)", FORWARD)
            self.code("loss = mini.total(outputs)")
            self.code("mini.backward(loss, 1.0)", BACKWARD)
            self.code(f"gradients = {{name: values[name].grad for name in ({names},)}}")
            self.code('return {"outputs": outputs, "losses": [loss], "gradients": gradients}')
        self.code("\n")


def emitter(case, variant):
    return Emitter(
        case, variant, Parts(WORDS, MiniTensors, MiniRecompute, MiniRun, forward=MiniForward)
    )
