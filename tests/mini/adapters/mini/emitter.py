"""How a program for `mini` is written."""

from __future__ import annotations

from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Emitter as Base
from conformance.emit.expressions import function


class Emitter(Base):
    imports = ("import numpy as np", "import mini")
    operations = {  # noqa: RUF012 (declared by the base class)
        "multiply": "mini.mul({a}, {b})",
        "add": "mini.add({a}, {b})",
        "sin": "mini.sin({x})",
    }

    def tensor(self, array, source):
        return f"mini.Tensor({source})"

    def write_forward(self, path):
        super().write_forward(path)
        if path == "plain" and self.variant.name == "plain-raising":
            at = next(i for i, line in enumerate(self.code.lines) if line.startswith("def plain"))
            self.code.lines.insert(at + 1, '    raise OSError("no device")')

    def recompute(self, region):
        way = f', "{self.variant.name}"' if self.variant.name != "right" else ""
        return f"mini.recompute({function(region.name)}{way})"

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
