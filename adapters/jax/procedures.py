"""How JAX writes `run`: dispatched one by one, in one `jax.jit`, or in one for each direction."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from conformance.adapter import Variant
from conformance.case import Case, Generator, Value
from conformance.emit import BACKWARD, FORWARD
from conformance.emit import Spelling as Base

#: Of variants that are not jitted as a whole: how they are.
STAGES = {"eager": "eager", "jit-two-phase": "two"}


class Procedures(Base, ABC):
    """Writes `run` for the case's procedure, in the stages of the variant."""

    def __init__(self, case: Case, variant: Variant) -> None:
        super().__init__(case, variant)
        self.stages = STAGES.get(variant.name, "one")
        self._random = "implicit" in case.sources()
        self._key = "key" if "key" not in _all_names(case) else "random_key"
        self._state = tuple(array.name for array in case.state)

    def write_run(self) -> None:
        code = self.code
        with code.indent(self.run_signature()):
            self.write_seeding(self.case.seed)
            if self._random and self.case.procedure.kind == "train":
                code(f"key = jax.random.key({self.case.seed})")
                code(f"values = {self.inputs_call()}")
            elif self._random:
                key = f'{{"{self._key}": jax.random.key({self.case.seed})}}'
                code(f"values = {self.inputs_call()} | {key}")
            else:
                code(f"values = {self.inputs_call()}")
            if self.case.procedure.kind == "inference":
                self._write_inference()
            elif self.stages == "one":
                self._write_jit()
            elif self.stages == "two":
                self._write_two()
            else:
                self._write_eager()
        code("\n")

    def _write_inference(self) -> None:
        code = self.code
        if self.stages != "eager":
            code(f"arrays = {self._chosen(self._arrays())}")
            code()
            code("@jax.jit")
            with code.indent("def step(arrays):"):
                code("return forward(**values | arrays)", FORWARD)
            code()
            code(f"{self._results()} = step(arrays)")
        else:
            code(f"{self._results()} = forward(**values)", FORWARD)
        state = ', "state": state' if self._state else ""
        code(f'return {{"outputs": outputs{state}{self.generators_entry()}}}')

    def _write_eager(self) -> None:
        code, kind = self.code, self.case.procedure.kind
        code(f"wanted = {self._chosen(self._wanted())}")
        code()
        self._write_loss("values | wanted")
        if kind == "second_order":
            code()
            self._write_total()
        code()
        with self._loop():
            self._write_gradients("jnp.ones_like(total)" if kind == "second_order" else "")
            self._write_update()
        self._write_results()

    def _write_jit(self) -> None:
        """Forward and backward in one jitted function."""
        code, kind = self.code, self.case.procedure.kind
        parts = self._write_values()
        fixed = "fixed, " if self._fixed() else ""
        again = ", other" if kind == "second_backward" else ""
        results = f"loss, {self._results()}, gradients"
        results += ", again" if kind in ("second_order", "second_backward") else ""
        code()
        code("@jax.jit")
        with code.indent(f"def step(wanted, {fixed}cotangent{again}):"):
            self._write_loss(" | ".join(parts))
            if kind == "second_order":
                code()
                self._write_total()
            code()
            self._write_gradients("cotangent.astype(total.dtype)" if kind == "second_order" else "")
            code(f"return {results}")
        code()
        code("one = jnp.ones(())")
        with self._loop():
            if fixed and kind == "train":
                code(f"fixed = {self._chosen(self._fixed())}")
            ones = "one, one" if again else "one"
            code(f"{results} = step(wanted, {fixed}{ones})")
            self._write_update()
        self._write_results()

    def _write_two(self) -> None:
        """Forward and backward, a jitted function each; what backward needs crosses between them."""
        code, kind = self.code, self.case.procedure.kind
        parts = self._write_values()
        fixed = ", fixed" if self._fixed() else ""
        second = kind == "second_order"
        code()
        code("@jax.jit")
        with code.indent(f"def start(wanted{fixed}):"):
            self._write_loss(" | ".join(parts))
            if second:
                code()
                self._write_total()
            code()
            code(f"return jax.vjp({'total_of' if second else 'loss_of'}, wanted, has_aux=True)")
        code()
        code("@jax.jit")
        with code.indent("def finish(vjp, cotangent):"):
            code("return vjp(cotangent)")
        code()
        with self._loop():
            if fixed and kind == "train":
                code(f"fixed = {self._chosen(self._fixed())}")
            if second:
                taken = f"(loss, {self._tuple()}, gradients)"
                code(f"total, vjp, {taken} = start(wanted{fixed})")
                code("(again,) = finish(vjp, jnp.ones_like(total))", BACKWARD)
            else:
                code(f"loss, vjp, {self._tuple()} = start(wanted{fixed})", FORWARD)
                code("(gradients,) = finish(vjp, jnp.ones_like(loss))", BACKWARD)
                if kind == "second_backward":
                    code("(again,) = finish(vjp, jnp.ones_like(loss))", BACKWARD)
            self._write_update()
        self._write_results()

    @contextmanager
    def _loop(self) -> Iterator[None]:
        """The loop over training steps; nothing for other procedures."""
        if self.case.procedure.kind != "train":
            yield
            return
        self.code("losses = []")
        name = "number" if self._random else "_"
        with self.code.indent(f"for {name} in range({self.case.procedure.steps}):"):
            if self._random:
                self.code(f'values["{self._key}"] = jax.random.fold_in(key, number)')
            yield

    def _write_loss(self, arguments: str) -> None:
        with self.code.indent("def loss_of(wanted):"):
            self.code(f"{self._results()} = forward(**{arguments})")
            self.code(f"return {self._loss()}, {self._tuple()}")

    def _write_total(self) -> None:
        """The sum of all first gradients, as a function: what second order differentiates."""
        code = self.code
        with code.indent("def total_of(wanted):"):
            code(f"loss, vjp, {self._tuple()} = jax.vjp(loss_of, wanted, has_aux=True)", FORWARD)
            code("(gradients,) = vjp(jnp.ones_like(loss))")
            code("total = sum(gradient.sum() for gradient in gradients.values())")
            code(f"return total, (loss, {self._tuple()}, gradients)")

    def _write_gradients(self, cotangent: str) -> None:
        code, kind = self.code, self.case.procedure.kind
        if kind == "second_order":
            taken = f"loss, {self._tuple()}, gradients"
            code(f"total, vjp, ({taken}) = jax.vjp(total_of, wanted, has_aux=True)")
            code(f"(again,) = vjp({cotangent})", BACKWARD)
            return
        jit = self.stages == "one"
        code(f"loss, vjp, {self._tuple()} = jax.vjp(loss_of, wanted, has_aux=True)", FORWARD)
        one = "cotangent.astype(loss.dtype)" if jit else "jnp.ones_like(loss)"
        code(f"(gradients,) = vjp({one})", BACKWARD)
        if kind == "second_backward":
            other = "other.astype(loss.dtype)" if jit else "jnp.ones_like(loss)"
            code(f"(again,) = vjp({other})", BACKWARD)

    def _write_update(self) -> None:
        """One step of SGD, and the state for the next step."""
        procedure, code = self.case.procedure, self.code
        if procedure.kind != "train":
            return
        rate = procedure.learning_rate
        if self._trained() == self._wanted():
            with code.indent("for name, gradient in gradients.items():"):
                code(f"wanted[name] = wanted[name] - {rate} * gradient")
        else:
            with code.indent(f"for name in {self._listed(self._trained())}:"):
                code(f"wanted[name] = wanted[name] - {rate} * gradients[name]")
        if self._state:
            code("values |= state")
        code("losses.append(loss)")

    def _write_results(self) -> None:
        kind = self.case.procedure.kind
        gradients = "gradients"
        if set(self._wanted()) != set(self.case.wrt):
            gradients = self._chosen(self.case.wrt, "gradients")
        results = ['"outputs": outputs']
        results.append('"losses": losses' if kind == "train" else '"losses": [loss]')
        results.append(f'"gradients": {gradients}')
        if kind in ("second_order", "second_backward"):
            results.append('"again": again')
        if kind == "train":
            parameters = [p.name for p in self.case.parameters]
            if parameters == self._wanted():
                results.append('"parameters": wanted')
            else:
                chosen = self._chosen(parameters, "(values | wanted)")
                results.append(f'"parameters": {chosen}')
        if self._state:
            results.append('"state": state')
        self.code(f"return {{{', '.join(results)}{self.generators_entry()}}}")

    def _loss(self) -> str:
        loss, place = self.case.loss, self.loss_place()
        assert loss is not None
        return place if loss.reduction == "none" else f"{place}.{loss.reduction}()"

    def _results(self) -> str:
        return "outputs, state" if self._state else "outputs"

    def _tuple(self) -> str:
        return "(outputs, state)" if self._state else "outputs"

    def _trained(self) -> list[str]:
        return [p.name for p in self.case.parameters if p.gradient]

    def _wanted(self) -> list[str]:
        """The names that gradients are taken of: what the case asks for, and what is trained."""
        if self.case.procedure.kind == "inference":
            return []
        trained = self._trained() if self.case.procedure.kind == "train" else []
        wanted = {*self.case.wrt, *trained}
        return [name for name in self.case.names() if name in wanted]

    def _arrays(self) -> list[str]:
        """What a jitted function is given, and must not take for a constant: tensors and keys."""
        names = [array.name for array in self.case.arrays]
        names += [v.name for v in self._generators() if v.library == "framework"]
        return [*names, *([self._key] if self._random else [])]

    def _generators(self) -> list[Generator]:
        return [value for value in self.case.inputs if isinstance(value, Generator)]

    def _write_values(self) -> list[str]:
        """Divide `values`; returns the parts of what `forward` is given inside a jitted function."""
        code = self.code
        code(f"wanted = {self._chosen(self._wanted())}")
        fixed = self._fixed()
        if fixed and self.case.procedure.kind != "train":
            code(f"fixed = {self._chosen(fixed)}")
        values = any(isinstance(value, Value) for value in self.case.inputs)
        values |= any(value.library == "numpy" for value in self._generators())
        return [*(["values"] if values else []), *(["fixed"] if fixed else []), "wanted"]

    def _fixed(self) -> list[str]:
        return [name for name in self._arrays() if name not in self._wanted()]

    def _chosen(self, names: Sequence[str], source: str = "values") -> str:
        """The entries of a dict with these names: written out where they are few."""
        if len(names) > 3 or "|" in source:
            return f"{{name: {source}[name] for name in {self._listed(names)}}}"
        return "{" + ", ".join(f'"{name}": {source}["{name}"]' for name in names) + "}"

    def _listed(self, names: Sequence[str]) -> str:
        """An expression for a sequence of names."""
        return (
            "(" + ", ".join(f'"{name}"' for name in names) + ("," if len(names) == 1 else "") + ")"
        )


def _all_names(case: Case) -> set[str]:
    made = {name for _, statement in case.statements() for name in statement.targets}
    return made | set(case.names())
