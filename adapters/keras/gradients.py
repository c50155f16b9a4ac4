"""How gradients are taken on each of Keras' backends: all that differs between their programs.

Each class writes the part of `run` that sets `outputs`, `loss`, `gradients` (of all that is `wanted`)
and, where gradients are taken more than once, `again`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext

from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Run
from conformance.emit.expressions import listed
from conformance.emit.values import FEW
from conformance.model.case import Generator

#: Procedures with a second set of gradients.
TWICE = frozenset({"second_backward", "per_output", "second_order", "third_order"})


class Backend(ABC):
    """A backend's own means; one for each program."""

    imports: Sequence[str] = ()
    #: The head of a `with` in which gradients are off; empty where nothing has to be written.
    without_gradients = ""
    #: The gradient of a lookup as a whole.
    whole = "gradients[name]"
    #: What follows an input and a variable that require a gradient.
    asked = "", ".value"

    def __init__(self, run: Run) -> None:
        self.run, self.code, self.case = run, run.code, run.case
        self.kind = run.case.procedure.kind

    @property
    def result(self) -> str | None:
        """The name of what the forward pass gives, if the backend decides on it."""
        return None

    @property
    def chooses(self) -> bool:
        """Whether what `write` leaves in `gradients` (and `again`) is what the case asks for, by name;
        else it is of all that is `wanted`."""
        return self.kind == "part"

    def write_before(self) -> None:  # noqa: B027 (eager ones have nothing)
        """What all steps have in common, before the first."""

    @abstractmethod
    def write(self) -> None:
        """Forward and backward, once."""

    def chosen(self) -> str:
        """The part of `wanted` that the case asks for."""
        return _dict((name, f'wanted["{name}"]') for name in self.case.wrt)

    def asking(self) -> list[str]:
        """The names of all tensors that require a gradient; where the sum of gradients is differentiated
        again, of those that it is of."""
        every = [array.name for array in self.case.arrays if array.gradient]
        return [n for n in every if n in self.case.wrt or self.case.procedure.order == 1]

    def write_loss_of(self, *, changing: bool = False, sites: bool = False) -> None:
        """The loss (and another one) as a function of all that is wanted, and beside it the outputs and
        what the forward pass has changed. With `sites` the phases of the program begin in there."""
        run, code, case = self.run, self.code, self.case
        before, after = (FORWARD, BACKWARD) if sites else (None, None)
        asked = list(case.wrt) if self.kind == "part" else self.asking()
        tensors = [(a.name, f'wanted["{a.name}"]') for a in case.inputs if a.name in asked]
        forward = f"forward({f'**values | {_dict(tensors)}' if tensors else '**values'})"
        if run.modelled:
            given = [dict(tensors).get(n, f'values["{n}"]') for n in run.forward.given()]
            forward = f"model({', '.join(given)})"
        scope = self._scope([p.name for p in case.parameters if p.name in asked], changing)
        loss = run.loss()
        if case.then is not None:
            loss = f"({loss}, {run.loss(case.then)})"
        # A copy gives both names anew: what a step differentiates has its own.
        bound = ", model=model, values=values" if run.copies else ""
        with code.indent(f"def loss_of(wanted{bound}):"):
            with code.indent(scope) if scope else nullcontext():
                if run.result == "loss":
                    code(f"return {forward}", before)
                else:
                    code(f"outputs = {forward}", before)
                    if scope:
                        code(f"loss = {loss}")
            if changing:
                code("changed = [scope.get_current_value(variable) for variable in changing]")
            if run.result != "loss":
                outputs = "(outputs, changed)" if changing else "outputs"
                code(f"return {'loss' if scope else loss}, {outputs}", after)

    def _scope(self, names: Sequence[str], changing: bool) -> str:
        """The head of the `with` in which the variables of these names have the values that are wanted;
        empty where there are none."""
        held = self.run.emitter.in_lists
        alone = [name for name in names if name not in held]
        pairs = [f'(values["{name}"], wanted["{name}"])' for name in alone]
        lists = dict.fromkeys(held[name].name for name in names if name in held)
        zipped = [f'zip(values["{name}"], wanted["{name}"])' for name in lists]
        if len(pairs) + len(zipped) > FEW:
            every = f"(values[name], wanted[name]) for name in {listed(alone)}"
            pairs, zipped = ([], [f"({every})"]) if changing else ([every], [])
        if changing:
            zipped.append("((variable, variable.value) for variable in changing)")
        if not pairs and not zipped:
            return ""
        mapping = f"[{', '.join([*pairs, *(f'*{each}' for each in zipped)])}]"
        if not pairs and len(zipped) == 1 and not changing:
            mapping = zipped[0]
        return f"with keras.StatelessScope({mapping}){' as scope' if changing else ''}:"


class TensorFlow(Backend):
    """`tf.GradientTape`."""

    imports = ("import tensorflow as tf",)
    whole = "tf.convert_to_tensor(gradients[name])"

    def write(self) -> None:
        if self.case.procedure.order > 1:
            self._write_order(self.case.procedure.order)
            return
        again = self.kind in TWICE
        self._write_forward("persistent=True" if again else "")
        self.run.write_between()
        sources = self.chosen() if self.kind == "part" else "wanted"
        self.run.write_backward("tape.gradient", "loss", sources, into="gradients")
        if again:
            loss = "loss" if self.case.then is None else "other"
            self.code(f"again = tape.gradient({loss}, wanted)", BACKWARD)

    def _write_order(self, order: int) -> None:
        """Gradients up to an order: a tape around the tapes of the order before."""
        code = self.code
        if order == 1:
            self._write_forward()
            code("gradients = tape.gradient(loss, wanted)", BACKWARD)
            return
        tape, before = ("outer", "gradients") if order == 2 else ("outermost", "again")
        with code.indent(f"with tf.GradientTape() as {tape}:"):
            code(f"{tape}.watch(wanted)")
            self._write_order(order - 1)
            zero, given = self.run.constant(order - 1), self.run.given(order - 1)
            total = f"sum(ops.sum(gradient) for gradient in {before}.values(){given})"
            code(f"total = {'tf.constant(0.0)' if zero else total}")
        code(f"again = {tape}.gradient(total, wanted)")

    def _write_forward(self, options: str = "") -> None:
        with self.code.indent(f"with tf.GradientTape({options}) as tape:"):
            self.code("tape.watch(wanted)")
            self.run.write_loss()
            if self.case.then is not None:
                self.code(f"other = {self.run.loss(self.case.then)}")


class Torch(Backend):
    """`loss.backward()`, `torch.autograd.grad` for higher orders, and `torch.func` for a transform."""

    imports = ("import torch",)
    without_gradients = "with torch.no_grad():"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        if self.kind == "functional":  # a transform is given tensors that no graph is recorded of
            self.asked = "", ".value.detach()"
        else:
            self.asked = ".requires_grad_()", ".value"

    @property
    def chooses(self) -> bool:
        return self.kind in ("backward", "part", "second_backward", "per_output")

    def write(self) -> None:
        run, code = self.run, self.code
        if self.kind == "functional":
            self._write_functional()
            return
        if self.kind == "train":
            self._write_clearing()
        if self.case.procedure.after == "backward":
            code.wrote("after")
            run.write_loss()
            if run.depends(self.case.loss):
                code("loss.backward()", BACKWARD)
        run.write_loss()
        run.write_between()
        if self.case.procedure.order > 1:
            self._write_order(self.case.procedure.order)
            return
        expression = "{name: value.grad for name, value in wanted.items()}"
        if self.chooses and (run.emitter.in_lists or self.asking() != list(self.case.wrt)):
            expression = run.values.entries(self.case.wrt, "wanted", part=".grad")
        words = []
        if self.kind in TWICE:
            words.append("retain_graph=True")
        if self.kind == "part":
            words.append(f"inputs=[{', '.join(f'wanted[{name!r}]' for name in self.case.wrt)}]")
        code.wrote("start")
        if run.depends(self.case.loss):
            run.write_backward("loss.backward", *words)
        code(f"gradients = {expression}")
        if self.kind in TWICE:
            self._write_clearing()
            then = self.case.then
            if run.depends(then or self.case.loss):
                code(f"{'loss' if then is None else run.loss(then)}.backward()", BACKWARD)
            code(f"again = {expression}")

    def _write_order(self, order: int) -> None:
        code = self.code
        code("leaves = list(wanted.values())")
        total, names = "loss", ("first", "second", "third")[:order]
        for number, name in enumerate(names, 1):
            last = number == order
            unused = last or self.run.given(number)
            options = "" if last else ", create_graph=True"
            options += ", allow_unused=True" if unused else ""
            call = f"torch.autograd.grad({total}, leaves{options})"
            if self.run.constant(number):
                call = "[None] * len(leaves)"
            elif number > 1:
                summed = f"ops.sum(gradient) for gradient in {names[number - 2]}"
                code(f"total = sum({summed}{self.run.given(number - 1)})")
            code(f"{name} = {call}", BACKWARD if number == 1 else None)
            if number == 1:
                code("gradients = dict(zip(wanted, first))")
            total = "total"
        code(f"again = dict(zip(wanted, {names[-1]}))")

    def _write_functional(self) -> None:
        """The gradients by `torch.func`: the forward pass is run inside the transform."""
        self.write_loss_of(sites=True)
        call = "torch.func.grad_and_value(loss_of, has_aux=True)(wanted)"
        self.code(f"gradients, (loss, outputs) = {call}")

    def _write_clearing(self) -> None:
        with self.code.indent("for value in wanted.values():"):
            self.code("value.grad = None")


class Jax(Backend):
    """`jax.vjp` of a function without state: a `keras.StatelessScope` gives variables their values
    and takes their changes, which are assigned when it is left."""

    imports = ("import jax",)

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        #: The variables that the forward pass changes: state, and the states of generators.
        self._changing = [run.values.value(array.name) for array in self.case.state] + [
            f"{run.values.value(given.name)}.state"
            for given in self.case.inputs
            if isinstance(given, Generator) and given.library == "framework"
        ]

    @property
    def result(self) -> str | None:
        """With changed variables, the function gives more than its loss."""
        return "outputs" if self._changing else None

    def write_before(self) -> None:
        """The variables that a forward pass changes."""
        if self._changing:
            self.code(f"changing = [{', '.join(self._changing)}]")

    def write(self) -> None:
        code, kind = self.code, self.kind
        if kind == "part":
            code(f"wanted = {self.chosen()}")
        self.write_loss_of(changing=bool(self._changing), sites=kind == "functional")
        result = "(outputs, changed)" if self._changing else "outputs"
        if self.case.procedure.order > 1:
            self._write_order(result, self.case.procedure.order)
        elif kind == "functional":
            call = "jax.value_and_grad(loss_of, has_aux=True)(wanted)"
            code(f"(loss, {result}), gradients = {call}")
        elif self.run.result == "loss":
            code("loss, vjp = jax.vjp(loss_of, wanted)", FORWARD)
        else:
            expression = "loss" if self.case.then is None else "(loss, other)"
            code(f"{expression}, vjp, {result} = jax.vjp(loss_of, wanted, has_aux=True)", FORWARD)
        if self._changing:
            with code.indent("for variable, value in zip(changing, changed):"):
                code("variable.assign(value)")
        if self.case.procedure.order == 1 and kind != "functional":
            self._write_backward()

    def _write_backward(self) -> None:
        self.run.write_between()
        if self.case.then is not None:
            pairs = {"gradients": ("ones", "zeros"), "again": ("zeros", "ones")}
            for name, (one, other) in pairs.items():
                cotangents = f"(ops.{one}_like(loss), ops.{other}_like(other))"
                self.code(f"({name},) = vjp({cotangents})", BACKWARD)
            return
        self.run.write_backward("vjp", "ops.ones_like(loss)", into="(gradients,)")
        if self.kind == "second_backward":
            self.code("(again,) = vjp(ops.ones_like(loss))", BACKWARD)

    def _write_order(self, result: str, order: int) -> None:
        """The sum of all first gradients as a function, for third order the sum of its gradients as
        one too, and the gradients of the last one."""
        code = self.code
        with code.indent("def total_of(wanted):"):
            code(f"loss, vjp, {result} = jax.vjp(loss_of, wanted, has_aux=True)", FORWARD)
            code("(gradients,) = vjp(ops.ones_like(loss))")
            code("total = sum(ops.sum(gradient) for gradient in gradients.values())")
            code(f"return total, (loss, {result}, gradients)")
        if order == 3:
            with code.indent("def second_total_of(wanted):"):
                code("total, vjp, taken = jax.vjp(total_of, wanted, has_aux=True)")
                code("(second,) = vjp(ops.ones_like(total))")
                code("return sum(ops.sum(gradient) for gradient in second.values()), taken")
        last = "total_of" if order == 2 else "second_total_of"
        taken = f"(loss, {result}, gradients)"
        code(f"total, vjp, {taken} = jax.vjp({last}, wanted, has_aux=True)")
        code("(again,) = vjp(ops.ones_like(total))", BACKWARD)


def _dict(entries: Iterable[tuple[str, str]]) -> str:
    return "{" + ", ".join(f'"{key}": {value}' for key, value in entries) + "}"


BACKENDS: Mapping[str, type[Backend]] = {"tensorflow": TensorFlow, "jax": Jax, "torch": Torch}
