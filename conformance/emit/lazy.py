"""Programs of lazy frameworks: one transform gives the graphs of a loss and of its gradients at once,
and a careful user evaluates the loss first, and then the gradients.

With `value_and_grad` and `evaluate` an adapter has all procedures but those that go through one graph
twice.
"""

from __future__ import annotations

from dataclasses import replace

from conformance.emit import functional
from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Emitter
from conformance.emit.functional import HIGHER, Functional

#: What `Words` of such frameworks begin with.
WORDS = replace(
    functional.WORDS,
    procedures_written=(
        *("backward", "part", "functional", "second_order", "third_order"),
        *("inference", "train"),
    ),
)


class Lazy(Functional):
    """`run` for all procedures but `second_backward` and `per_output`.

    `value_and_grad` is the transform of a function of a dict that returns a loss, or a tuple of a loss
    and anything, into one that returns what the function returns, and the gradients of the loss in a
    dict; `evaluate` the function that computes arrays, or trees of them.
    """

    def __init__(
        self, emitter: Emitter, value_and_grad: str, evaluate: str, tree_map: str = ""
    ) -> None:
        super().__init__(emitter)
        self.value_and_grad, self.evaluate, self.tree_map = value_and_grad, evaluate, tree_map
        self.inferring = f"{evaluate}(forward(**values))"

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
        summed = self.words.reduction.format(x="gradient", kind="sum")
        total = f"sum({summed} for gradient in {{}}.values())"
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
