"""How gradients are taken on each of Keras' backends: all that differs between their programs.

Each class writes the part of `run` that sets `outputs`, `loss`, `gradients` (of all that is `wanted`)
and, for a second backward and for second order, `again`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from conformance.case import Array, Case, Generator
from conformance.emit import BACKWARD, FORWARD, Code


class Writing(Protocol):
    """What the classes below need of the spelling."""

    code: Code
    case: Case

    def loss(self) -> str:
        """The expression of the loss."""

    def write_between(self) -> None:
        """What happens between forward and backward."""


class Backend(Protocol):
    """A backend's own means."""

    imports: Sequence[str]
    #: The head of a `with` in which gradients are off; empty where nothing has to be written.
    without_gradients: str
    #: What follows an input that asks for a gradient.
    asks: str

    def write(self, spelling: Writing) -> None:
        """Forward and backward, once."""


class TensorFlow:
    """`tf.GradientTape`."""

    imports = ("import tensorflow as tf",)
    without_gradients = ""
    asks = ""

    def write(self, spelling: Writing) -> None:
        code, kind = spelling.code, spelling.case.procedure.kind
        if kind == "second_order":
            with code.indent("with tf.GradientTape() as outer:"):
                code("outer.watch(wanted)")
                self._write_forward(spelling)
                code("gradients = tape.gradient(loss, wanted)", BACKWARD)
                code("total = sum(ops.sum(gradient) for gradient in gradients.values())")
            code("again = outer.gradient(total, wanted)")
            return
        again = kind == "second_backward"
        self._write_forward(spelling, "persistent=True" if again else "")
        spelling.write_between()
        code("gradients = tape.gradient(loss, wanted)", BACKWARD)
        if again:
            code("again = tape.gradient(loss, wanted)", BACKWARD)

    def _write_forward(self, spelling: Writing, options: str = "") -> None:
        with spelling.code.indent(f"with tf.GradientTape({options}) as tape:"):
            spelling.code("tape.watch(wanted)")
            spelling.code("outputs = forward(**values)", FORWARD)
            spelling.code(f"loss = {spelling.loss()}")


class Torch:
    """`loss.backward()`, and `torch.autograd.grad` for second order."""

    imports = ("import torch",)
    without_gradients = "with torch.no_grad():"
    asks = ".requires_grad_()"

    def write(self, spelling: Writing) -> None:
        code, kind = spelling.code, spelling.case.procedure.kind
        if kind == "train":
            self._write_clearing(code)
        code("outputs = forward(**values)", FORWARD)
        code(f"loss = {spelling.loss()}")
        spelling.write_between()
        if kind == "second_order":
            code("leaves = list(wanted.values())")
            code("first = torch.autograd.grad(loss, leaves, create_graph=True)", BACKWARD)
            code("gradients = dict(zip(wanted, first))")
            code("total = sum(ops.sum(gradient) for gradient in first)")
            code("second = torch.autograd.grad(total, leaves, allow_unused=True)")
            code("again = dict(zip(wanted, second))")
            return
        found = "{name: value.grad for name, value in wanted.items()}"
        again = kind == "second_backward"
        code(f"loss.backward({'retain_graph=True' if again else ''})", BACKWARD)
        code(f"gradients = {found}")
        if again:
            self._write_clearing(code)
            code("loss.backward()", BACKWARD)
            code(f"again = {found}")

    def _write_clearing(self, code: Code) -> None:
        with code.indent("for value in wanted.values():"):
            code("value.grad = None")


class Jax:
    """`jax.vjp` of a function without state: a `keras.StatelessScope` gives variables their values
    and takes their changes, which are assigned when it is left."""

    imports = ("import jax",)
    without_gradients = ""
    asks = ""

    def write(self, spelling: Writing) -> None:
        code, kind = spelling.code, spelling.case.procedure.kind
        changing = _changing(spelling.case)
        if changing:
            code(f"changing = [{', '.join(changing)}]")
        code()
        self._write_loss(spelling, bool(changing))
        result = "(outputs, changed)" if changing else "outputs"
        if kind == "second_order":
            with code.indent("def total_of(wanted):"):
                code("loss, vjp, results = jax.vjp(loss_of, wanted, has_aux=True)", FORWARD)
                code("(gradients,) = vjp(ops.ones_like(loss))")
                code("total = sum(ops.sum(gradient) for gradient in gradients.values())")
                code("return total, (loss, results, gradients)")
            code()
            taken = f"(loss, {result}, gradients)"
            code(f"total, vjp, {taken} = jax.vjp(total_of, wanted, has_aux=True)")
            code("(again,) = vjp(ops.ones_like(total))", BACKWARD)
        else:
            code(f"loss, vjp, {result} = jax.vjp(loss_of, wanted, has_aux=True)", FORWARD)
            if changing:
                with code.indent("for variable, value in zip(changing, changed):"):
                    code("variable.assign(value)")
            spelling.write_between()
            code("(gradients,) = vjp(ops.ones_like(loss))", BACKWARD)
            if kind == "second_backward":
                code("(again,) = vjp(ops.ones_like(loss))", BACKWARD)

    def _write_loss(self, spelling: Writing, changing: bool) -> None:
        code, case = spelling.code, spelling.case
        asking = [a.name for a in case.inputs if isinstance(a, Array) and a.gradient]
        tensors = {name: f'wanted["{name}"]' for name in asking}
        given = f"**values | {_dict(tensors)}" if tensors else "**values"
        variables = [p.name for p in case.parameters if p.gradient]
        pairs = [f'(values["{name}"], wanted["{name}"])' for name in variables]
        if changing:
            pairs.append("*((variable, variable.value) for variable in changing)")
        with code.indent("def loss_of(wanted):"):
            if not pairs:
                code(f"outputs = forward({given})")
                code(f"return {spelling.loss()}, outputs")
                code()
                return
            scope = " as scope" if changing else ""
            with code.indent(f"with keras.StatelessScope([{', '.join(pairs)}]){scope}:"):
                code(f"outputs = forward({given})")
                code(f"loss = {spelling.loss()}")
            if changing:
                code("changed = [scope.get_current_value(variable) for variable in changing]")
            code(f"return loss, {'(outputs, changed)' if changing else 'outputs'}")
        code()


def _changing(case: Case) -> list[str]:
    """The variables that the forward pass changes: state, and the states of generators."""
    own = [i.name for i in case.inputs if isinstance(i, Generator) and i.library == "framework"]
    state = [f'values["{array.name}"]' for array in case.state]
    return [*state, *(f'values["{name}"].state' for name in own)]


def _dict(entries: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{key}": {value}' for key, value in entries.items()) + "}"


BACKENDS: Mapping[str, Backend] = {"tensorflow": TensorFlow(), "jax": Jax(), "torch": Torch()}
