"""Programs of lazy frameworks: one transform gives the graphs of a loss and of its gradients at once,
and a careful user evaluates the loss first, and then the gradients.

With `value_and_grad` and `evaluate` an adapter has all procedures but those that go through one graph
twice.
"""

from __future__ import annotations

from abc import ABC

from conformance.drivers.adapter import Variant
from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.functional import HIGHER, Functional
from conformance.model.case import Case


class Lazy(Functional, ABC):
    """`run` for all procedures but `second_backward` and `per_output`."""

    procedures_written = (
        *("backward", "part", "functional", "second_order", "third_order"),
        *("inference", "train"),
    )
    #: The transform of a function of a dict that returns a loss, or a tuple of a loss and anything, into
    #: one that returns what the function returns, and the gradients of the loss in a dict.
    value_and_grad = ""
    #: The function that computes arrays, or trees of them.
    evaluate = ""

    def __init__(self, case: Case, variant: Variant) -> None:
        super().__init__(case, variant)
        self.inferring = f"{self.evaluate}(forward(**values))"

    def write_inference(self) -> None:
        self.code("outputs = forward(**values)", FORWARD)
        self.code(f"{self.evaluate}(outputs)")
        self.code(f'return {{"outputs": outputs{self.state_entry()}}}')

    def write_gradients(self) -> None:
        code, higher = self.code, HIGHER.get(self.case.procedure.kind, "")
        self.write_after()
        self.write_wanted()
        self.write_losses()
        if higher:
            taken = "(_, loss, outputs, gradients), again"
            code(f"{taken} = {self.value_and_grad}({higher})({self.of})", FORWARD)
            code(f"{self.evaluate}(loss, outputs)")
        else:
            self._write_differentiated()
        self.write_between()
        self.write_backward(self.evaluate, "gradients", *(["again"] if higher else []))
        self.write_returned(again=bool(higher))

    def write_step(self) -> None:
        self._write_differentiated()
        self.write_between()
        self.code(f"{self.evaluate}(gradients)", BACKWARD)

    def _write_differentiated(self) -> None:
        """The graphs of the loss and of its gradients; what is evaluated is the loss alone."""
        both = self.result != "loss"
        value = "(loss, outputs)" if both else "loss"
        self.code(f"{value}, gradients = {self.value_and_grad}(loss_of)({self.of})", FORWARD)
        self.code(f"{self.evaluate}(loss{', outputs' if both else ''})")

    def write_losses(self) -> None:
        """What is differentiated: the loss as a function of a dict, and for higher orders the sum of
        all gradients as another one."""
        code, kind, of = self.code, self.case.procedure.kind, self.of
        code()
        with code.indent(f"def loss_of({of}):"):
            if self.result == "loss":
                code(f"return forward({self.arguments_of_forward()})")
            else:
                code(f"outputs = forward({self.arguments_of_forward()})")
                code(f"return {self.loss()}, outputs")
        code()
        if kind not in HIGHER:
            return
        total = (
            f"sum({self.reduction.format(x='gradient', kind='sum')} for gradient in {{}}.values())"
        )
        with code.indent(f"def total_of({of}):"):
            code(f"(loss, outputs), gradients = {self.value_and_grad}(loss_of)({of})")
            code(f"total = {total.format('gradients')}")
            code("return total, loss, outputs, gradients")
        code()
        if kind == "third_order":
            with code.indent(f"def second_total_of({of}):"):
                code(f"(_, *taken), second = {self.value_and_grad}(total_of)({of})")
                code(f"return {total.format('second')}, *taken")
            code()
