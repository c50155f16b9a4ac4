"""Programs of frameworks with a tape whose backward pass adds gradients to those that tensors hold.

That is how PyTorch and Paddle do: `loss.backward()`, then `.grad`, and an optimizer of the parameters.
"""

from collections.abc import Iterable

from conformance.emit.code import BACKWARD
from conformance.emit.expressions import listed
from conformance.emit.running import Run
from conformance.emit.usual import HELPERS
from conformance.model.case import Array, Loss
from conformance.model.steps import ever_asking
from conformance.oracle.reached import reached

#: The calls of `functions`, by operation.
CALLS = {
    "custom_sin": "CustomSin.apply({x}, {reads})",
    "asking_sin": "AskingSin.apply({x})",
    "slope_of_sin": "slope_of_sin({x})",
    "accumulate_sin": "accumulate_sin({x}, {total})",
    "hooked": "hooked({x}, {scale})",
}


def functions(**words: str) -> dict[str, str]:
    """`helpers` of frameworks in which a class with `forward` and `backward` is a function.

    `module` is the framework's, `base` the class that such functions are derived from, `saved` how a
    context gives the tensors that it has saved, and `grad` the function that returns gradients.
    `gradients` and `asking` are what backward returns of a function that has a second argument, and of
    one that gives a gradient only if one is asked for; `x`, `g` and the context `ctx` are there.
    """
    return {op: text.format(**words) for op, text in HELPERS["of_tapes"].items()}


class Accumulating(Run):
    """`run` for all procedures but `part` and `functional`, which are each framework's own."""

    #: The function that returns gradients instead of adding them to tensors.
    grad = ""
    #: The expression of an optimizer, SGD of `{parameters}` with `{rate}`, and the line that clears the
    #: gradients of its parameters.
    optimizer, clearing_all = "", ""
    #: The line that clears the gradient of one `{tensor}`.
    clearing = ""

    def write_before(self) -> None:
        """What stands before the first forward pass: making a network."""
        if self.wraps_network:
            self.code(f"network = {self._data_parallel}")
        elif self.forward.makes_network:
            held = self.values.given(self.layers.held)
            self.code(f"network = forward({_read(held)})")
            self.code.wrote("made")

    def write_forward_pass(self) -> None:
        """The forward pass and the loss."""
        self.write_loss()

    @property
    def _data_parallel(self) -> str:
        """The module that data parallelism makes of the forward pass and its parameters."""
        case = self.case
        parameters = "".join(f', {a.name}=values["{a.name}"]' for a in case.parameters)
        used = reached(case, case.loss) if case.loss is not None else ()
        unused = any(a.gradient and a.name not in used for a in case.parameters)
        options = ", find_unused_parameters=True" * unused
        return f"{self.words.data_parallel}(Network(forward{parameters}){options})"

    @property
    def passed(self) -> str:
        if self.wraps_network:
            given = (f'{value.name}=values["{value.name}"]' for value in self.case.inputs)
            return f"network({', '.join(given)})"
        network = f"network({_read(value.name for value in self.case.inputs)})"
        return network if self.forward.makes_network else super().passed

    def write_functional(self) -> None:
        """The gradients by a transform of a function."""
        raise NotImplementedError

    def write_part(self) -> None:
        """A backward pass of which only the gradients that the case asks for are wanted."""
        raise NotImplementedError

    def write_taken(self) -> None:
        """Take the gradients of the first backward pass, of two."""
        self.code(f"gradients = {self.values.gradients()}")

    def write_backward_before(self) -> None:
        with self._indented("with network.no_sync():" if self.wraps_network else ""):
            self.write_forward_pass()
            self.write_start("loss.backward()", self.case.loss)

    def write_start(self, call: str, loss: Loss | None) -> None:
        """A call that starts a backward pass. It raises where the loss requires no gradient."""
        if self.depends(loss):
            self.code(call, BACKWARD)

    def write_inference(self) -> None:
        self.write_before()
        super().write_inference()

    def write_gradients(self) -> None:
        code, kind = self.code, self.case.procedure.kind
        if kind == "functional":
            self.write_functional()
            return
        self.write_before()
        self.write_after()
        self.write_forward_pass()
        self.write_between()
        results = [f'"outputs": {self.result}', '"losses": [loss]', '"gradients": gradients']
        if kind in ("second_order", "third_order"):
            self._write_orders()
        elif kind in ("second_backward", "per_output"):
            self.refuse_twice()
            self.write_start("loss.backward(retain_graph=True)", self.case.loss)
            self.write_taken()
            self.values.write_clearing(self.clearing)
            then = "loss" if kind == "second_backward" else self.loss(self.case.then)
            self.write_start(f"{then}.backward()", self.case.then or self.case.loss)
            code(f"again = {self.values.gradients()}")
        elif kind == "part" and self.depends(self.case.loss):
            self.write_part()
        else:
            if self.depends(self.case.loss):
                self.write_backward("loss.backward")
            else:
                code.wrote("start")
            code(f"gradients = {self.values.gradients()}")
        if kind not in ("backward", "part"):
            results.append('"again": again')
        code(f"return {{{', '.join(results)}{self.state_entry()}}}")

    def _write_orders(self) -> None:
        """First gradients, and those of their sum; for the third order those of the sum of these."""
        self.refuse_orders(self.case.procedure.order)
        code, wrt, single = self.code, self.case.wrt, len(self.case.wrt) == 1
        names = ("first", "second", "third")[: self.case.procedure.order]
        if not single:
            code(f"wanted = {self.values.items(wrt)}")
        for order, (of, name) in enumerate(zip(("loss", *names), names, strict=False), 1):
            first, total, last = order == 1, of, name == names[-1]
            options = [] if last else ["create_graph=True"]
            options += ["allow_unused=True"] if last or self.given(order) else []
            made, at = (f"({name},)", self.values.value(wrt[0])) if single else (name, "wanted")
            if self.constant(order):
                code(f"{made} = [None] * {len(wrt)}")
            else:
                if not first and single:
                    total = f"{of}.sum()"
                elif not first:
                    total, given = "total", self.given(order - 1)
                    code(f"total = sum(gradient.sum() for gradient in {of}{given})")
                call = f"{self.grad}({', '.join([total, at, *options])})"
                code(f"{made} = {call}", BACKWARD if first else None)
            gradients = f'{{"{wrt[0]}": {name}}}' if single else f"dict(zip({listed(wrt)}, {name}))"
            if first:
                code(f"gradients = {gradients}")
        code(f"again = {gradients}")

    def write_training(self) -> None:
        code, case = self.code, self.case
        self.write_before()
        asking, changes = ever_asking(case), case.procedure.changes
        updated = [p.name for p in case.parameters if p.name in asking]
        trained = self.values.items(updated)
        made = self.optimizer.format(parameters=trained, rate=case.procedure.learning_rate)
        if updated and not changes:  # an optimizer of nothing raises
            code(f"optimizer = {made}")
        code("losses = []")
        with code.indent(f"for {self.turn} in range({case.procedure.steps}):"):
            if changes:
                self.write_changes()
            if updated and changes:
                code(f"optimizer = {made}")
            if updated:
                code(self.clearing_all)
            for given in case.inputs:  # the optimizer has only parameters
                if isinstance(given, Array) and given.name in asking:
                    code(self.clearing.format(tensor=self.values.value(given.name)))
            self.write_forward_pass()
            self.write_start("loss.backward()", case.loss)
            if updated:
                code("optimizer.step()")
            code("losses.append(loss.detach())")
        self.write_trained(self.result, self.values.gradients())

    def write_trained(self, outputs: str, gradients: str) -> None:
        """What `run` returns after a training: of the last step, but for the losses."""
        self.code(
            f"""
            return {{
                "outputs": {outputs},
                "losses": losses,
                "gradients": {gradients},
                "parameters": {self.values.chosen(self.case.parameters)}{self.state_entry()}
            }}
            """
        )


def _read(names: Iterable[str]) -> str:
    return ", ".join(f'values["{name}"]' for name in names)
