"""Programs of frameworks in which differentiating a function gives its value and a pullback: a function
from cotangents of the value to gradients, which may be called as often as one likes."""

from __future__ import annotations

from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Emitter
from conformance.emit.expressions import listed
from conformance.emit.functional import HIGHER, Functional
from conformance.model.program import Site


class Pullback(Functional):
    """`run` for all procedures.

    `pullback` gives the pullback `vjp` and the `{value}` of a `{function}` at a dict `{at}`,
    `value_and_grad` value and gradients in one call; `ones` and `zeros` are cotangents in the form of
    `{x}`.
    """

    # A dict that is differentiated may be the framework's own, which Python's `|` does not know.
    merged = "**{**values, **wanted}"

    def __init__(
        self, emitter: Emitter, pullback: str, value_and_grad: str, ones: str, zeros: str
    ) -> None:
        super().__init__(emitter)
        self.pullback, self.value_and_grad = pullback, value_and_grad
        self.ones, self.zeros = ones, zeros

    def write_gradients(self) -> None:
        code, kind = self.code, self.case.procedure.kind
        self.write_after()
        self.write_wanted()
        self.write_losses()
        again = kind in ("per_output", "second_backward", *HIGHER)
        if kind == "functional":
            code(f"loss, gradients = {self.value_and_grad}(loss_of)({self.of})")
        elif kind in HIGHER:
            self._pulled("total", HIGHER[kind])
            code(f"again = vjp({self._one('total')})")
            code("loss, gradients = taken[0]")
        else:
            self._pulled("loss", "loss_of", FORWARD)
        if self.result != "loss":
            code("outputs = seen[0]")
        if kind in ("functional", *HIGHER):
            self.write_returned(again=again)
            return
        self.write_between()
        if kind == "per_output":
            code("loss = loss[0]")
            code(f"one, none = {self._one('loss')}, {self.zeros.format(x='loss')}")
            code("gradients = vjp((one, none))", BACKWARD)
            code("again = vjp((none, one))")
        else:
            self.write_backward("vjp", self._one("loss"), into="gradients")
        if kind == "second_backward":
            code(f"again = vjp({self._one('loss')})")
        self.write_returned(again=again)

    def write_step(self) -> None:
        self._pulled("loss", "loss_of", FORWARD)
        if self.result != "loss":
            self.code("outputs = seen.pop()")
        self.write_between()
        self.code(f"gradients = vjp({self._one('loss')})", BACKWARD)

    def _pulled(self, value: str, function: str, site: Site | None = None) -> None:
        """The value of a function of the dict, and its pullback."""
        self.code(self.pullback.format(value=value, function=function, at=self.of), site)

    def _one(self, value: str) -> str:
        return self.ones.format(x=value)

    def write_losses(self) -> None:
        """What is differentiated: the loss as a function of a dict, and for higher orders the sum of
        all gradients as another one. What they find out beside is left in lists."""
        code, kind, of = self.code, self.case.procedure.kind, self.of
        before, after = (FORWARD, BACKWARD) if kind == "functional" else (None, None)
        if self.result != "loss":
            code("seen = []")
        if kind in HIGHER:
            code("taken = []")
        code()
        with code.indent(f"def loss_of({of}):"):
            if self.result == "loss":
                code(f"return forward({self.arguments_of_forward()})")
            else:
                code(f"outputs = forward({self.arguments_of_forward()})", before)
                code("seen.append(outputs)")
                loss = self.loss()
                if kind == "per_output":
                    loss = f"tuple([{loss}, {self.loss(self.case.then)}])"
                # What follows is backward, for who recomputes there.
                code(f"return {loss}", after)
        code()
        if kind not in HIGHER:
            return
        key = '"{}"'.format(*self.case.wrt) if len(self.case.wrt) == 1 else "name"
        total = self.words.reduction.format(x=f"gradients[{key}]", kind="sum")
        if len(self.case.wrt) > 1:
            total = f"sum({total} for name in {listed(self.case.wrt)})"
        with code.indent(f"def total_of({of}):"):
            self._pulled("loss", "loss_of", FORWARD)
            code(f"gradients = vjp({self._one('loss')})", BACKWARD)
            code("taken.append((loss, gradients))")
            code(f"return {total}")
        code()
        if kind == "third_order":
            with code.indent(f"def second_total_of({of}):"):
                self._pulled("total", "total_of")
                code(f"gradients = vjp({self._one('total')})")
                code(f"return {total}")
            code()

    @property
    def result(self) -> str:
        """The loss that comes with a pullback is without its graph: what is kept is what `forward`
        gave."""
        return "outputs" if self.case.keeps else super().result

    def wanted(self) -> list[str]:
        """The keys of the dict that gradients are taken of: what asks for one, or where only a
        part of it is wanted, that part."""
        if self.case.procedure.kind == "part":
            return self.values.given(name for name in self.case.names() if name in self.case.wrt)
        return self.values.given(array.name for array in self.case.arrays if array.gradient)
