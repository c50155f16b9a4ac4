"""How JAX writes `run`: eager, in one `jax.jit`, or with one for forward and one for backward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Emitter
from conformance.emit.emitter import Values as BaseValues
from conformance.emit.functional import HIGHER, Functional
from conformance.emit.transforms import Transforms
from conformance.errors import NotOfferedError
from conformance.model.case import Case, Change, Generator
from conformance.model.program import Site

#: Of variants that are not jitted as a whole: how they are.
STAGES = {"eager": "eager", "shard-map": "eager", "jit-two-phase": "two"}
#: Operations that change a `state` tensor which is a reference, and not handed in and out.
REFERRING = frozenset({"accumulate_sin"})
#: Procedures with two backward passes of one forward pass.
TWICE = ("second_backward", "per_output")
#: The cotangents of the two losses of `per_output`, in its first backward pass and in its second.
PER_OUTPUT = (
    "(jnp.ones_like(loss), jnp.zeros_like(other))",
    "(jnp.zeros_like(loss), jnp.ones_like(other))",
)


@dataclass(frozen=True)
class Plan:
    """What the parts of a program have to agree on: the name of the key, whether there is one, and the
    state that is a reference, or is handed in and out."""

    key: str
    random: bool
    references: tuple[str, ...]
    state: tuple[str, ...]


def plan(case: Case) -> Plan:
    """The plan of a case."""
    made = {name for _, statement in case.statements() for name in statement.targets}
    changed = {n for _, s in case.statements() if s.op in REFERRING for n in s.names()}
    return Plan(
        key="random_key" if "key" in made | {*case.names()} else "key",
        random="implicit" in case.sources(),
        references=tuple(a.name for a in case.state if a.name in changed),
        state=tuple(a.name for a in case.state if a.name not in changed),
    )


class Values(BaseValues):
    """Among the values is a key, where the case draws without naming one."""

    def value_names(self) -> list[str]:
        drawn = plan(self.case)
        return [*super().value_names(), *([drawn.key] if drawn.random else [])]


class Procedures(Functional):
    """Writes `run` for the case's procedure, in the stages of the variant."""

    tree_map = "jax.tree.map"

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        self.stages = STAGES.get(self.variant.name, "one")
        self.trains = self.case.procedure.kind == "train"
        self.plan = plan(self.case)

    # -- values ----------------------------------------------------------------------------------

    def write_own_seeding(self, seed: int) -> None:
        """JAX has no implicit generator: a key is among the values."""

    def inputs_call(self) -> str:
        values = super().inputs_call()
        if self.plan.random and not self.trains:
            key = f"jax.random.key({self.case.seed})"
            if self.case.ranks > 1:
                key = f"jax.random.split({key}, {self.case.ranks})"
            values += f' | {{"{self.plan.key}": {key}}}'
        return values

    @property
    def of(self) -> str:
        """The dict that gradients are taken of: `wanted`, or all `values` where that is the same."""
        whole = self.wanted() == self.values.value_names() and not self.trains
        return "values" if whole else "wanted"

    def _arrays(self) -> list[str]:
        """What a jitted function is given, and must not take for a constant: tensors and keys."""
        names = self.values.given(array.name for array in self.case.arrays)
        keys = [
            v for v in self.case.inputs if isinstance(v, Generator) and v.library == "framework"
        ]
        return [*names, *(v.name for v in keys), *([self.plan.key] if self.plan.random else [])]

    def fixed(self) -> list[str]:
        """What a jitted function is given at first beside the dict that gradients are taken of."""
        if self.stages == "eager":
            return []
        return [name for name in self._arrays() if name not in self.wanted_first()]

    def arguments_of_forward(self) -> str:
        if self.stages == "eager" or self.of == "values":
            return super().arguments_of_forward()
        parts = ["fixed", "wanted"] if self._splits else ["wanted"]
        if not {*self.values.value_names()} <= {*self._arrays()}:
            parts = ["values", *parts]  # for what is no array
        return f"**{' | '.join(parts)}"

    @property
    def arguments(self) -> str:
        """The arguments of the function that is differentiated or jitted."""
        return f"{self.of}, fixed" if self._splits else self.of

    @property
    def _splits(self) -> bool:
        """Whether a jitted function is given `fixed`, too; between steps, more may be put there."""
        changes = self.stages != "eager" and self.case.procedure.changes
        return bool(changes or self.fixed())

    @property
    def apart(self) -> str:  # type: ignore[override]
        return "values" if self.stages == "eager" else "fixed"

    @property
    def everything(self) -> str:
        changes = self.stages != "eager" and self.case.procedure.changes
        return "values | fixed | wanted" if changes else super().everything

    def write_change(self, case: Case, change: Change) -> None:
        if self.stages != "eager" and change.kind not in ("freeze", "unfreeze", "assign", "rows"):
            what = f"`{change.kind}` between steps of a jitted function"
            raise NotOfferedError(self.variant.id, what)
        super().write_change(case, change)

    # -- what forward gives ----------------------------------------------------------------------

    @property
    def result(self) -> str:
        """With state, or with several losses, one of each rank, the pass gives more than its loss. Where
        it is jitted by itself, outputs are given out beside the loss: copies, which are told from what
        is kept because they are outputs."""
        more = self.plan.state or self.stages == "two" or self.case.ranks > 1
        return "outputs" if more else super().result

    @property
    def results(self) -> str:
        return "outputs, state" if self.plan.state else "outputs"

    @property
    def _aux(self) -> str:
        """What a function gives beside its loss; empty where it gives the loss alone."""
        if self.plan.state:
            return "(outputs, state)"
        if self.case.ranks > 1:
            return "(outputs, loss)"
        return "" if self.result == "loss" else "outputs"

    @property
    def _has_aux(self) -> str:
        return ", has_aux=True" if self._aux else ""

    # -- run -------------------------------------------------------------------------------------

    def write_inference(self) -> None:
        self._write_inferring(f"{self.results} = ", FORWARD)
        self.code(f'return {{"outputs": outputs{self.state_entry()}}}')

    def write_inference_before(self) -> None:
        self._write_inferring("", None)

    def _write_inferring(self, into: str, site: Site | None) -> None:
        """The forward pass, with no gradient asked for."""
        code = self.code
        if self.stages == "eager":
            code(f"{into}forward(**values)", site)
            return
        code(f"arrays = {self.values.entries(self._arrays())}")
        code("@jax.jit")
        with code.indent("def infer(arrays):"):
            code("return forward(**values | arrays)", site)
        code(f"{into}infer(arrays)")

    def write_gradients(self) -> None:
        self.write_after()
        self.write_dicts()
        self.write_losses()
        self.write_step()
        self._write_end()

    def write_training(self) -> None:
        if self.modelled and self.stages != "eager":
            raise NotOfferedError(
                self.variant.id, "regions made once, which `jax.jit` traces once anyway"
            )
        self.write_dicts()
        self.write_losses()
        changing = "fixed" if self._splits else "values"
        if self.plan.random:
            self.code(f"key = jax.random.key({self.case.seed})")
        self.code("losses = []")
        number = "number" if self.plan.random else self.turn
        with self.code.indent(f"for {number} in range({self.case.procedure.steps}):"):
            if self.case.procedure.changes:
                self.write_changes()
            if self.plan.random:
                self.code(f'{changing}["{self.plan.key}"] = jax.random.fold_in(key, number)')
            self.write_step()
            self.write_update()
            if self.plan.state:
                self.code(f"{changing} |= state")
            self.code("losses.append(loss)")
        self._write_end()

    def write_beginning(self) -> None:
        if self.case.ranks > 1:
            self.code("forward = on_ranks(forward)")
        super().write_beginning()

    def write_dicts(self) -> None:
        """The dicts that are handed to the functions below; in training, each step makes its key."""
        self.write_wanted()
        fixed = self.fixed()
        if self._splits:
            there = [name for name in fixed if not (self.trains and name == self.plan.key)]
            self.code(f"fixed = {self.values.entries(there)}")

    def _write_end(self) -> None:
        self.write_returned(again=self.case.procedure.kind in (*HIGHER, *TWICE))

    def write_losses(self) -> None:
        """What is differentiated, and the jitted functions around it.

        Two backward passes in one jitted function are given their cotangents, since XLA would take two
        passes with the same constants for one.
        """
        code = self.code
        if self.stages == "eager":
            self._write_differentiated(self.of)
        elif self.stages == "two":
            with self._jitted(f"start({self.arguments})"):
                self._write_differentiated(self.of)
                code(f"return {self._vjp}")
            with self._jitted("finish(vjp, cotangent)"):
                code("return vjp(cotangent)")
        elif self.case.procedure.kind in TWICE:
            with self._jitted(f"step({self.arguments}, cotangent, other)"):
                self._write_differentiated(self.of)
                self._write_pulled(self._vjp)
                code(f"return {self._of_both}")
        else:
            self._write_differentiated(self.arguments)
            code(f"step = jax.jit({self._value_and_grad[1]})")

    @contextmanager
    def _jitted(self, head: str) -> Iterator[None]:
        self.code("@jax.jit")
        with self.code.indent(f"def {head}:"):
            yield

    def _write_differentiated(self, given: str) -> None:
        """The loss as a function of a dict; for higher orders also the sum of all its gradients, and
        the sum of the gradients of that."""
        code, kind = self.code, self.case.procedure.kind
        with code.indent(f"def loss_of({given}):"):
            forward = f"{self.callee}({self.arguments_of_forward()})"
            site = FORWARD if self._at_once else None
            if not self._aux:
                code(f"return {forward}", site)
            else:
                code(f"{self.results} = {forward}", site)
                loss = self.loss()
                if self.case.ranks > 1:
                    code(f"loss = jax.vmap(lambda outputs: {loss})(by_rank(outputs))")
                    loss = "loss.sum()"
                if kind == "per_output":
                    loss = f"({loss}, {self.loss(self.case.then)})"
                code(f"return {loss}, {self._aux}")
        if kind not in HIGHER:
            return
        with code.indent(f"def total_of({given}):"):
            grad = "jax.value_and_grad(loss_of, has_aux=True)"
            code(f"(loss, {self._aux}), gradients = {grad}({given})", FORWARD)
            code("total = sum(gradient.sum() for gradient in gradients.values())")
            code(f"return total, (loss, {self._aux}, gradients)")
        if kind == "third_order":
            with code.indent(f"def second_total_of({given}):"):
                code(f"second, taken = jax.grad(total_of, has_aux=True)({given})")
                code("return sum(gradient.sum() for gradient in second.values()), taken")

    @property
    def _at_once(self) -> bool:
        """Whether value and gradients come from one call of JAX's, with no line between them."""
        return self.case.procedure.kind == "functional" or (
            self.stages == "one" and not self._in_lines
        )

    @property
    def _in_lines(self) -> bool:
        """Whether forward and backward are lines of `run`, for what is done with the pullback."""
        procedure = self.case.procedure
        return bool(procedure.between) or procedure.kind in (*TWICE, *HIGHER)

    @property
    def _vjp(self) -> str:
        """The call that gives the value of what is differentiated, and its pullback."""
        function = HIGHER.get(self.case.procedure.kind, "loss_of")
        return f"jax.vjp({function}, {self.of}{self._has_aux})"

    @property
    def _value_and_grad(self) -> tuple[str, str]:
        """What value and gradients are assigned to, and the function that gives them."""
        kind = self.case.procedure.kind
        if kind in HIGHER:
            taken = f"again, (loss, {self._aux}, gradients)"
            return taken, f"jax.grad({HIGHER[kind]}, has_aux=True)"
        of_all = "loss" if self.case.ranks == 1 else "_"
        loss = f"({of_all}, {self._aux})" if self._aux else "loss"
        return f"{loss}, gradients", f"jax.value_and_grad(loss_of{self._has_aux})"

    @property
    def _of_both(self) -> str:
        """What two backward passes in one jitted function give."""
        return f"loss, {self.results}, gradients, again" if self._aux else "loss, gradients, again"

    def write_step(self) -> None:
        self._write_gradients()
        if self.case.parallel:
            self.code("gradients = averaged(gradients)")

    def _write_gradients(self) -> None:
        code, kind = self.code, self.case.procedure.kind
        into, value_and_grad = self._value_and_grad
        if self.stages == "two" and kind in HIGHER:
            code(f"total, vjp, (loss, {self._aux}, gradients) = start({self.arguments})")
            code("(again,) = finish(vjp, jnp.ones_like(total))", BACKWARD)
        elif self.stages == "two":
            self._write_pulled(f"start({self.arguments})")
        elif self.stages == "one" and kind in TWICE:
            per_output = kind == "per_output"
            code("one, none = jnp.ones(()), jnp.zeros(())" if per_output else "one = jnp.ones(())")
            cotangents = "one, none" if per_output else "one, one"
            code(f"{self._of_both} = step({self.arguments}, {cotangents})")
        elif self.stages == "one":
            code(f"{into} = step({self.arguments})", BACKWARD)
        elif kind in HIGHER or self._at_once:
            code(f"{into} = {value_and_grad}({self.of})", BACKWARD)
        elif self._in_lines:
            self._write_pulled(self._vjp)
        else:
            code(f"{into} = value_and_grad(loss_of, {self.of})")

    def _write_pulled(self, made: str) -> None:
        """A forward pass that gives a pullback, and one backward pass or two that call it."""
        kind = self.case.procedure.kind
        loss = "loss" if self.case.ranks == 1 else "total"
        cotangents = [f"jnp.ones_like({loss})"] * 2
        if self.stages == "one":
            cotangents = [f"{name}.astype(loss.dtype)" for name in ("cotangent", "other")]
        if kind == "per_output" and self.stages == "one":
            loss = "(loss, second)"
            cotangents = [
                f"({one}.astype(loss.dtype), {none}.astype(second.dtype))"
                for one, none in (("cotangent", "other"), ("other", "cotangent"))
            ]
        elif kind == "per_output":
            loss, cotangents = "(loss, other)", [*PER_OUTPUT]
        aux = f", {self._aux}" if self._aux else ""
        self.code(f"{loss}, vjp{aux} = {made}", FORWARD)
        pullback = ["finish", "vjp"] if self.stages == "two" else ["vjp"]
        for into, cotangent in zip(["gradients", "again"], cotangents, strict=True):
            if into == "gradients" or kind in TWICE:
                self.write_backward(*pullback, cotangent, into=f"({into},)")

    def write_main(self) -> None:
        """The steps of `value_and_grad`, before the script.

        A JAX user calls `jax.value_and_grad`. Eagerly, what is kept between forward and backward is
        measured, and for that there must be a line between them.
        """
        kind = self.case.procedure.kind
        if self.stages == "eager" and kind in ("backward", "part", "train") and not self._in_lines:
            with self.code.indent("def value_and_grad(loss_of, wanted):"):
                into, value_and_grad = self._value_and_grad
                self.code(f"# {value_and_grad}(wanted), step by step.")
                self._write_pulled(f"jax.vjp(loss_of, wanted{self._has_aux})")
                self.code(
                    f"return {into.replace('_', 'total', 1) if self.case.ranks > 1 else into}"
                )
        super().write_main()

    def state_entry(self) -> str:
        entries = self.state_entries()
        if entries == ["**state"]:
            return f', "state": state{self.generators_entry()}'
        return super().state_entry()

    def state_entries(self) -> list[str]:
        handed_over = {f'"{array.name}": values["{array.name}"]' for array in self.case.state}
        entries = ["**state"] if self.plan.state else []
        entries += [f'"{name}": values["{name}"][...]' for name in self.plan.references]
        return entries + [e for e in super().state_entries() if e not in handed_over]


class ForwardMode(Transforms):
    """`jax.jvp`, and `jax.jacrev`, in the stages of the variant."""

    def write(self) -> None:
        code, kind, aux = self.code, self.case.procedure.kind, self.run.results
        aux = f"({aux})" if self.run.plan.state else aux
        self.run.write_dicts()
        given = self.run.arguments
        place = self.run.loss() if kind == "jvp_of_gradient" else self.place
        with code.indent(f"def output_of({given}):"):
            code(f"{self.run.results} = forward({self.run.arguments_of_forward()})", FORWARD)
            code(f"return {place}, {aux}", BACKWARD)
        with code.indent(f"def step({given}):"):
            of = "output_of"
            if self.run.fixed():
                of = f"lambda {self.run.of}: output_of({given})"
            at = f"({self.run.of},), ({self.run.of},), has_aux=True"
            if kind == "jacobian":
                code(f"return jax.jacrev(output_of, has_aux=True)({given})")
            elif kind == "jvp":
                code(f"_, tangent, aux = jax.jvp({of}, {at})")
                code("return tangent, aux")
            elif kind == "jvp_of_gradient":
                grad = f"lambda {self.run.of}: jax.grad(output_of, has_aux=True)({given})"
                code(f"gradients, again, aux = jax.jvp({grad}, {at})")
                code("return gradients, again, aux")
            else:
                with code.indent("def tangent_of(at):"):
                    inner = f"lambda {self.run.of}: output_of({given})"
                    code(
                        f"_, tangent, aux = jax.jvp({inner}, (at,), ({self.run.of},), has_aux=True)"
                    )
                    code(f"return {self.reduced('tangent')}, (tangent, aux)")
                code(f"again, (tangent, aux) = jax.grad(tangent_of, has_aux=True)({self.run.of})")
                code("return tangent, again, aux")
        results = ["gradients" if kind in ("jacobian", "jvp_of_gradient") else "tangent"]
        results += ["again"] if self.case.procedure.order > 1 else []
        call = f"step({given})" if self.run.stages == "eager" else f"jax.jit(step)({given})"
        code(f"{', '.join(results)}, {aux} = {call}")
