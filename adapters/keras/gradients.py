"""How gradients are taken on each of Keras' backends: all that differs between their programs.

Each class writes the part of `run` that sets `outputs`, `loss`, `gradients` (of all that is `wanted`)
and, where gradients are taken more than once, `again`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from conformance.emit.code import BACKWARD, FORWARD, Code
from conformance.emit.emitter import FEW
from conformance.emit.expressions import listed
from conformance.emit.lists import Item
from conformance.model.case import Case, Generator, Loss

#: Procedures with a second set of gradients.
TWICE = frozenset({"second_backward", "per_output", "second_order", "third_order"})


class Writing(Protocol):
    """What the classes below need of the emitter."""

    code: Code
    case: Case

    #: The parameters that are in lists, and where.
    in_lists: Mapping[str, Item]

    @property
    def result(self) -> str:
        """The name of what the forward pass gives."""

    def wrote(self, part: str) -> None:
        """Record that a part which the case demands is written."""

    def write_loss(self) -> None:
        """The forward pass, and the loss."""

    def loss(self, other: Loss | None = None) -> str:
        """The expression of the loss, or of another one."""

    def entries(self, names: Iterable[str], source: str = "values", part: str = "") -> str:
        """A dict of the entries of `source` with these names, or of their attribute `part`."""

    def write_between(self) -> None:
        """What happens between forward and backward."""

    def write_backward(self, function: str, *arguments: str, into: str = "") -> None:
        """The call that starts the backward pass."""


class Backend(ABC):
    """A backend's own means."""

    imports: Sequence[str] = ()
    #: The head of a `with` in which gradients are off; empty where nothing has to be written.
    without_gradients = ""

    def asked(self, kind: str) -> tuple[str, str]:
        """What follows an input and a variable that ask for a gradient, for a kind of procedure."""
        return "", ".value"

    def write_before(self, emitter: Writing) -> None:  # noqa: B027 (eager ones have nothing)
        """What all steps have in common, before the first."""

    @abstractmethod
    def write(self, emitter: Writing) -> None:
        """Forward and backward, once."""

    def chooses(self, kind: str) -> bool:
        """Whether what `write` leaves in `gradients` (and `again`) is what the case asks for, by name,
        for a kind of procedure; else it is of all that is `wanted`."""
        return kind == "part"


class TensorFlow(Backend):
    """`tf.GradientTape`."""

    imports = ("import tensorflow as tf",)

    def write(self, emitter: Writing) -> None:
        code, kind = emitter.code, emitter.case.procedure.kind
        if emitter.case.procedure.order > 1:
            self._write_order(emitter, emitter.case.procedure.order)
            return
        again = kind in ("second_backward", "per_output")
        self._write_forward(emitter, "persistent=True" if again else "")
        emitter.write_between()
        sources = _chosen(emitter.case) if kind == "part" else "wanted"
        emitter.write_backward("tape.gradient", "loss", sources, into="gradients")
        if again:
            loss = "other" if kind == "per_output" else "loss"
            code(f"again = tape.gradient({loss}, wanted)", BACKWARD)

    def _write_order(self, emitter: Writing, order: int) -> None:
        """Gradients up to an order: a tape around the tapes of the order before."""
        code = emitter.code
        if order == 1:
            self._write_forward(emitter)
            code("gradients = tape.gradient(loss, wanted)", BACKWARD)
            return
        tape, before = ("outer", "gradients") if order == 2 else ("outermost", "again")
        with code.indent(f"with tf.GradientTape() as {tape}:"):
            code(f"{tape}.watch(wanted)")
            self._write_order(emitter, order - 1)
            code(f"total = sum(ops.sum(gradient) for gradient in {before}.values())")
        code(f"again = {tape}.gradient(total, wanted)")

    def _write_forward(self, emitter: Writing, options: str = "") -> None:
        with emitter.code.indent(f"with tf.GradientTape({options}) as tape:"):
            emitter.code("tape.watch(wanted)")
            emitter.write_loss()
            if emitter.case.then is not None:
                emitter.code(f"other = {emitter.loss(emitter.case.then)}")


class Torch(Backend):
    """`loss.backward()`, `torch.autograd.grad` for higher orders, and `torch.func` for a transform."""

    imports = ("import torch",)
    without_gradients = "with torch.no_grad():"

    def asked(self, kind: str) -> tuple[str, str]:
        # A transform is given tensors that no graph is recorded of.
        return ("", ".value.detach()") if kind == "functional" else (".requires_grad_()", ".value")

    def write(self, emitter: Writing) -> None:
        code, kind = emitter.code, emitter.case.procedure.kind
        if kind == "functional":
            self._write_functional(emitter)
            return
        if kind == "train":
            self._write_clearing(code)
        if emitter.case.procedure.after == "backward":
            emitter.wrote("after")
            emitter.write_loss()
            code("loss.backward()", BACKWARD)
        emitter.write_loss()
        emitter.write_between()
        if emitter.case.procedure.order > 1:
            self._write_order(code, emitter.case.procedure.order)
            return
        found = "{name: value.grad for name, value in wanted.items()}"
        asking = [array.name for array in emitter.case.arrays if array.gradient]
        if self.chooses(kind) and (emitter.in_lists or asking != list(emitter.case.wrt)):
            found = emitter.entries(emitter.case.wrt, "wanted", part=".grad")
        words = []
        if kind in TWICE:
            words.append("retain_graph=True")
        if kind == "part":
            listed = ", ".join(f'wanted["{name}"]' for name in emitter.case.wrt)
            words.append(f"inputs=[{listed}]")
        emitter.write_backward("loss.backward", *words)
        code(f"gradients = {found}")
        if kind in TWICE:
            self._write_clearing(code)
            then = emitter.case.then
            code(f"{'loss' if then is None else emitter.loss(then)}.backward()", BACKWARD)
            code(f"again = {found}")

    def chooses(self, kind: str) -> bool:
        return kind in ("backward", "part", "second_backward", "per_output")

    def _write_order(self, code: Code, order: int) -> None:
        code("leaves = list(wanted.values())")
        code("first = torch.autograd.grad(loss, leaves, create_graph=True)", BACKWARD)
        code("gradients = dict(zip(wanted, first))")
        code("total = sum(ops.sum(gradient) for gradient in first)")
        if order == 3:
            code("second = torch.autograd.grad(total, leaves, create_graph=True)")
            code("total = sum(ops.sum(gradient) for gradient in second)")
        code("last = torch.autograd.grad(total, leaves, allow_unused=True)")
        code("again = dict(zip(wanted, last))")

    def _write_functional(self, emitter: Writing) -> None:
        """The gradients by `torch.func`: the forward pass is run inside the transform."""
        code = emitter.code
        code()
        _write_loss(emitter, "", changing=False, sites=True)
        call = "torch.func.grad_and_value(loss_of, has_aux=True)(wanted)"
        code(f"gradients, (loss, outputs) = {call}")

    def _write_clearing(self, code: Code) -> None:
        with code.indent("for value in wanted.values():"):
            code("value.grad = None")


class Jax(Backend):
    """`jax.vjp` of a function without state: a `keras.StatelessScope` gives variables their values
    and takes their changes, which are assigned when it is left."""

    imports = ("import jax",)

    def write_before(self, emitter: Writing) -> None:
        """The variables that a forward pass changes."""
        changing = variables_changed(emitter.case)
        if changing:
            emitter.code(f"changing = [{', '.join(changing)}]")

    def write(self, emitter: Writing) -> None:
        code, kind = emitter.code, emitter.case.procedure.kind
        changing = variables_changed(emitter.case)
        if kind == "part":
            code(f"wanted = {_chosen(emitter.case)}")
        code()
        other = emitter.case.then
        both = "" if other is None else emitter.loss(other)
        _write_loss(emitter, both, bool(changing), sites=kind == "functional")
        result = "(outputs, changed)" if changing else "outputs"
        if emitter.case.procedure.order > 1:
            self._write_order(code, result, emitter.case.procedure.order)
        elif kind == "functional":
            call = "jax.value_and_grad(loss_of, has_aux=True)(wanted)"
            code(f"(loss, {result}), gradients = {call}")
        else:
            found = "(loss, other)" if both else "loss"
            if emitter.result == "loss":
                code("loss, vjp = jax.vjp(loss_of, wanted)", FORWARD)
            else:
                code(f"{found}, vjp, {result} = jax.vjp(loss_of, wanted, has_aux=True)", FORWARD)
            self._write_changes(code, bool(changing))
            emitter.write_between()
            if both:
                code("(gradients,) = vjp((ops.ones_like(loss), ops.zeros_like(other)))", BACKWARD)
                code("(again,) = vjp((ops.zeros_like(loss), ops.ones_like(other)))", BACKWARD)
                return
            emitter.write_backward("vjp", "ops.ones_like(loss)", into="(gradients,)")
            if kind == "second_backward":
                code("(again,) = vjp(ops.ones_like(loss))", BACKWARD)
            return
        self._write_changes(code, bool(changing))

    def _write_changes(self, code: Code, changing: bool) -> None:
        if changing:
            with code.indent("for variable, value in zip(changing, changed):"):
                code("variable.assign(value)")

    def _write_order(self, code: Code, result: str, order: int) -> None:
        """The sum of all first gradients as a function, for third order the sum of its gradients as
        one too, and the gradients of the last one."""
        with code.indent("def total_of(wanted):"):
            code(f"loss, vjp, {result} = jax.vjp(loss_of, wanted, has_aux=True)", FORWARD)
            code("(gradients,) = vjp(ops.ones_like(loss))")
            code("total = sum(ops.sum(gradient) for gradient in gradients.values())")
            code(f"return total, (loss, {result}, gradients)")
        code()
        if order == 3:
            with code.indent("def second_total_of(wanted):"):
                code("total, vjp, taken = jax.vjp(total_of, wanted, has_aux=True)")
                code("(second,) = vjp(ops.ones_like(total))")
                code("return sum(ops.sum(gradient) for gradient in second.values()), taken")
            code()
        last = "total_of" if order == 2 else "second_total_of"
        taken = f"(loss, {result}, gradients)"
        code(f"total, vjp, {taken} = jax.vjp({last}, wanted, has_aux=True)")
        code("(again,) = vjp(ops.ones_like(total))", BACKWARD)


def _write_loss(emitter: Writing, other: str, changing: bool, sites: bool) -> None:
    """The loss (and another one) as a function of all that is wanted, and beside it the outputs and what
    the forward pass has changed. With `sites` the phases of the program begin in there."""
    code, case = emitter.code, emitter.case
    before, after = (FORWARD, BACKWARD) if sites else (None, None)
    asked = [a.name for a in case.arrays if a.gradient]
    if case.procedure.kind == "part":
        asked = list(case.wrt)
    tensors = {a.name: f'wanted["{a.name}"]' for a in case.inputs if a.name in asked}
    given = f"**values | {_dict(tensors)}" if tensors else "**values"
    variables = [p.name for p in case.parameters if p.name in asked]
    lists = dict.fromkeys(
        emitter.in_lists[name].name for name in variables if name in emitter.in_lists
    )
    variables = [name for name in variables if name not in emitter.in_lists]
    pairs = [f'(values["{name}"], wanted["{name}"])' for name in variables]
    pairs += [f'*zip(values["{name}"], wanted["{name}"])' for name in lists]
    if len(pairs) > FEW:
        every = f"((values[name], wanted[name]) for name in {listed(variables)})"
        pairs = [f"*{every}"] if changing else [every[1:-1]]
    if changing:
        pairs.append("*((variable, variable.value) for variable in changing)")
    loss = f"({emitter.loss()}, {other})" if other else emitter.loss()
    with code.indent("def loss_of(wanted):"):
        if not pairs and emitter.result == "loss":
            code(f"return forward({given})", before)
            return
        if not pairs:
            code(f"outputs = forward({given})", before)
            code(f"return {loss}, outputs", after)
            code()
            return
        scope = " as scope" if changing else ""
        mapping = f"[{', '.join(pairs)}]"
        if len(pairs) == 1 and pairs[0].startswith("*zip"):
            mapping = pairs[0][1:]
        with code.indent(f"with keras.StatelessScope({mapping}){scope}:"):
            if emitter.result == "loss":
                code(f"return forward({given})", before)
                return
            code(f"outputs = forward({given})", before)
            code(f"loss = {loss}")
        if changing:
            code("changed = [scope.get_current_value(variable) for variable in changing]")
        code(f"return loss, {'(outputs, changed)' if changing else 'outputs'}", after)
    code()


def _chosen(case: Case) -> str:
    """The part of `wanted` that the case asks for."""
    return _dict({name: f'wanted["{name}"]' for name in case.wrt})


def variables_changed(case: Case) -> list[str]:
    """The variables that the forward pass changes: state, and the states of generators."""
    own = [i.name for i in case.inputs if isinstance(i, Generator) and i.library == "framework"]
    state = [f'values["{array.name}"]' for array in case.state]
    return [*state, *(f'values["{name}"].state' for name in own)]


def _dict(entries: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{key}": {value}' for key, value in entries.items()) + "}"


BACKENDS: Mapping[str, Backend] = {"tensorflow": TensorFlow(), "jax": Jax(), "torch": Torch()}
