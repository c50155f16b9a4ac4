"""How JAX writes `run`: eager, in one `jax.jit`, or with one for forward and one for backward."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from conformance.drivers.adapter import Variant
from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Emitter as Base
from conformance.emit.expressions import listed
from conformance.emit.helpers import LISTS
from conformance.model.case import Case, Generator, Value
from conformance.model.program import Site

#: Of variants that are not jitted as a whole: how they are.
STAGES = {"eager": "eager", "jit-two-phase": "two"}
#: Operations that change a `state` tensor which is a reference, and not handed in and out.
REFERRING = frozenset({"accumulate_sin"})
#: By procedure, the function that the last backward pass differentiates, where that is a gradient.
HIGHER: Mapping[str, str] = {"second_order": "total_of", "third_order": "second_total_of"}
#: Procedures with a second set of gradients.
TWICE = frozenset({*HIGHER, "second_backward", "per_output"})
#: The cotangents of the two losses of `per_output`, in its first backward pass and in its second.
PER_OUTPUT = (
    "(jnp.ones_like(loss), jnp.zeros_like(other))",
    "(jnp.zeros_like(loss), jnp.ones_like(other))",
)


class Procedures(Base, ABC):
    """Writes `run` for the case's procedure, in the stages of the variant."""

    def __init__(self, case: Case, variant: Variant) -> None:
        self.stages = STAGES.get(variant.name, "one")
        if self.stages != "eager" and case.procedure.kind != "train":
            # A list is differentiated as a whole, and a compiled program keeps what that takes.
            self.lists = "nothing"
        super().__init__(case, variant)
        self._random = "implicit" in case.sources()
        self._key = "key" if "key" not in _all_names(case) else "random_key"
        changed = {n for _, s in case.statements() if s.op in REFERRING for n in s.names()}
        self._references = tuple(a.name for a in case.state if a.name in changed)
        self._state = tuple(a.name for a in case.state if a.name not in changed)

    def value_names(self) -> list[str]:
        return [*super().value_names(), *([self._key] if self._random else [])]

    def write_own_seeding(self, seed: int) -> None:
        """JAX has no implicit generator: a key is among the values."""

    def write_run(self) -> None:
        code = self.code
        with code.indent(self.run_signature()):
            self.write_seeding(self.case.seed)
            used = {statement.op for _, statement in self.case.statements()}
            for op in (op for op in LISTS if op in used):
                code(f"{LISTS[op]}.clear()")
            if self._random and self.case.procedure.kind != "train":
                key = f'{{"{self._key}": jax.random.key({self.case.seed})}}'
                code(f"values = {self.inputs_call()} | {key}")
            else:
                code(f"values = {self.inputs_call()}")
            self.write_after()
            if self.case.procedure.kind == "inference":
                self._write_inference()
            elif self.stages == "one":
                self._write_jit()
            elif self.stages == "two":
                self._write_two()
            else:
                self._write_eager()
        code("\n")

    def write_inference_before(self) -> None:
        self._write_inferring(None)

    def _write_inferring(self, site: Site | None) -> None:
        """The forward pass, with no gradient asked for; without a site what it gives is dropped."""
        code = self.code
        into = f"{self._results()} = " if site else ""
        if self.stages != "eager":
            code(f"arrays = {self.entries(self._arrays())}")
            code()
            code("@jax.jit")
            with code.indent("def infer(arrays):"):
                code("return forward(**values | arrays)", site)
            code()
            code(f"{into}infer(arrays)")
        else:
            code(f"{into}forward(**values)", site)

    def _write_inference(self) -> None:
        self._write_inferring(FORWARD)
        self.code(f'return {{"outputs": outputs{self.state_entry()}}}')

    def _write_eager(self) -> None:
        code, wanted = self.code, self._name
        if wanted != "values":
            code(f"wanted = {self.entries(self._wanted())}")
        code()
        self._write_loss("values" if wanted == "values" else "values | wanted")
        if self.case.procedure.kind in HIGHER:
            self._write_totals()
        code()
        with self._loop():
            self._write_gradients()
            self._write_update()
        self._write_results()

    def write_main(self) -> None:
        """The steps of `value_and_grad`, before the script.

        A JAX user calls `jax.value_and_grad`. Eagerly, what is kept between forward and backward is
        measured, and for that there must be a line between them.
        """
        if self._in_steps():
            results = f"(loss, {self._tuple()})" if self._aux else "loss"
            with self.code.indent("def value_and_grad(loss_of, wanted):"):
                self.code(f"# jax.value_and_grad(loss_of{self._aux})(wanted), step by step.")
                self.code(f"{self._made()} = jax.vjp(loss_of, wanted{self._aux})", FORWARD)
                self.code("(gradients,) = vjp(jnp.ones_like(loss))", BACKWARD)
                self.code(f"return {results}, gradients")
            self.code("\n")
        super().write_main()

    def _write_jit(self) -> None:
        """Forward and backward in one jitted function."""
        if self.case.procedure.kind in ("second_backward", "per_output"):
            self._write_jit_twice()
            return
        code, kind = self.code, self.case.procedure.kind
        parts, fixed = self._write_values(), ", fixed" if self._fixed() else ""
        code()
        self._write_loss(" | ".join(parts), fixed)
        if kind in HIGHER:
            self._write_totals(fixed)
        code()
        taken, into = self._value_and_grad()
        code(f"step = jax.jit({taken})")
        with self._loop():
            if fixed and kind == "train":
                code(f"fixed = {self.entries(self._fixed())}")
            code(f"{into} = step({self._name}{fixed})", BACKWARD)
            self._write_update()
        self._write_results()

    def _write_jit_twice(self) -> None:
        """Two backward passes in one jitted function. Their cotangents are arguments, since XLA would
        take two passes with the same constants for one."""
        code, kind = self.code, self.case.procedure.kind
        parts, fixed = self._write_values(), "fixed, " if self._fixed() else ""
        results = f"loss, {self._results()}, gradients" if self._aux else "loss, gradients"
        code()
        code("@jax.jit")
        with code.indent(f"def step({self._name}, {fixed}cotangent, other):"):
            self._write_loss(" | ".join(parts))
            code()
            self._write_gradients()
            code(f"return {results}, again")
        code()
        if kind == "per_output":
            code("one, none = jnp.ones(()), jnp.zeros(())")
        else:
            code("one = jnp.ones(())")
        ones = "one, none" if kind == "per_output" else "one, one"
        code(f"{results}, again = step({self._name}, {fixed}{ones})")
        self._write_results()

    def _write_two(self) -> None:
        """Forward and backward, a jitted function each; what backward needs crosses between them."""
        code, kind = self.code, self.case.procedure.kind
        parts = self._write_values()
        fixed = ", fixed" if self._fixed() else ""
        code()
        code("@jax.jit")
        with code.indent(f"def start({self._name}{fixed}):"):
            self._write_loss(" | ".join(parts))
            if kind in HIGHER:
                self._write_totals()
            code()
            code(f"return jax.vjp({HIGHER.get(kind, 'loss_of')}, {self._name}{self._aux})")
        code()
        code("@jax.jit")
        with code.indent("def finish(vjp, cotangent):"):
            code("return vjp(cotangent)")
        code()
        with self._loop():
            if fixed and kind == "train":
                code(f"fixed = {self.entries(self._fixed())}")
            if kind in HIGHER:
                taken = f"(loss, {self._tuple()}, gradients)"
                code(f"total, vjp, {taken} = start({self._name}{fixed})")
                code("(again,) = finish(vjp, jnp.ones_like(total))", BACKWARD)
            elif kind == "per_output":
                code(f"(loss, other), vjp, {self._tuple()} = start({self._name}{fixed})", FORWARD)
                first, second = PER_OUTPUT
                code(f"(gradients,) = finish(vjp, {first})", BACKWARD)
                code(f"(again,) = finish(vjp, {second})", BACKWARD)
            else:
                code(f"{self._made()} = start({self._name}{fixed})", FORWARD)
                self.write_backward("finish", "vjp", "jnp.ones_like(loss)", into="(gradients,)")
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
        if self._random:
            self.code(f"key = jax.random.key({self.case.seed})")
        self.code("losses = []")
        name = "number" if self._random else "_"
        with self.code.indent(f"for {name} in range({self.case.procedure.steps}):"):
            if self._random:
                self.code(f'values["{self._key}"] = jax.random.fold_in(key, number)')
            yield

    def _write_loss(self, arguments: str, fixed: str = "") -> None:
        with self.code.indent(f"def loss_of({self._name}{fixed}):"):
            site = FORWARD if self._at_once() else None
            if not self._aux:
                self.code(f"return forward(**{arguments})", site)
                return
            self.code(f"{self._results()} = forward(**{arguments})", site)
            loss = self.loss()
            if self.case.procedure.kind == "per_output":
                loss = f"({loss}, {self.loss(self.case.then)})"
            self.code(f"return {loss}, {self._tuple()}")

    def _write_totals(self, fixed: str = "") -> None:
        """The sum of all first gradients, as a function: what second order differentiates; and for
        third order the sum of its gradients."""
        code, given = self.code, f"{self._name}{fixed}"
        code()
        with code.indent(f"def total_of({given}):"):
            grad = "jax.value_and_grad(loss_of, has_aux=True)"
            code(f"(loss, {self._tuple()}), gradients = {grad}({given})", FORWARD)
            code("total = sum(gradient.sum() for gradient in gradients.values())")
            code(f"return total, (loss, {self._tuple()}, gradients)")
        if self.case.procedure.kind == "third_order":
            code()
            with code.indent(f"def second_total_of({given}):"):
                grad = "jax.value_and_grad(total_of, has_aux=True)"
                code(f"(_, taken), second = {grad}({given})")
                code("return sum(gradient.sum() for gradient in second.values()), taken")

    def _at_once(self) -> bool:
        """Whether value and gradients come from one call, with no line between forward and backward."""
        procedure = self.case.procedure
        if procedure.kind == "functional":
            return True
        alone = self.stages == "one" and procedure.kind in ("backward", "part", "train")
        return alone and not procedure.between

    def _in_steps(self) -> bool:
        """Whether value and gradients come from one call of the program's own `value_and_grad`."""
        procedure = self.case.procedure
        alone = self.stages == "eager" and procedure.kind in ("backward", "part", "train")
        return alone and not procedure.between

    def _value_and_grad(self) -> tuple[str, str]:
        """The function that gives value and gradients, and what its result is assigned to."""
        kind = self.case.procedure.kind
        if kind in HIGHER:
            taken = f"(_, (loss, {self._tuple()}, gradients)), again"
            return f"jax.value_and_grad({HIGHER[kind]}, has_aux=True)", taken
        loss = f"(loss, {self._tuple()})" if self._aux else "loss"
        return f"jax.value_and_grad(loss_of{self._aux})", f"{loss}, gradients"

    def _write_gradients(self) -> None:
        code, kind = self.code, self.case.procedure.kind
        if self._in_steps():
            code(f"{self._value_and_grad()[1]} = value_and_grad(loss_of, {self._name})")
            return
        if kind in HIGHER or self._at_once():
            taken, into = self._value_and_grad()
            code(f"{into} = {taken}({self._name})", BACKWARD)
            return
        jit = self.stages == "one"
        if kind == "per_output":
            both = "loss, _" if jit else "loss, other"
            made = f"jax.vjp(loss_of, {self._name}, has_aux=True)"
            code(f"({both}), vjp, {self._tuple()} = {made}", FORWARD)
            first, second = PER_OUTPUT
            if jit:
                one, none = (f"{name}.astype(loss.dtype)" for name in ("cotangent", "other"))
                first, second = f"({one}, {none})", f"({none}, {one})"
            code(f"(gradients,) = vjp({first})", BACKWARD)
            code(f"(again,) = vjp({second})", BACKWARD)
            return
        code(f"{self._made()} = jax.vjp(loss_of, {self._name}{self._aux})", FORWARD)
        one = "cotangent.astype(loss.dtype)" if jit else "jnp.ones_like(loss)"
        self.write_backward("vjp", one, into="(gradients,)")
        if kind == "second_backward":
            other = "other.astype(loss.dtype)" if jit else "jnp.ones_like(loss)"
            code(f"(again,) = vjp({other})", BACKWARD)

    def _write_update(self) -> None:
        """One step of SGD, and the state for the next step."""
        procedure, code = self.case.procedure, self.code
        if procedure.kind != "train":
            return
        rate = procedure.learning_rate
        if self.given(self._trained()) == self._wanted():
            step = f"lambda weight, gradient: weight - {rate} * gradient"
            code(f"wanted = jax.tree.map({step}, wanted, gradients)")
        else:
            with code.indent(f"for name in {listed(self._trained())}:"):
                code(f"wanted[name] = wanted[name] - {rate} * gradients[name]")
        if self._state:
            code("values |= state")
        code("losses.append(loss)")

    def _write_results(self) -> None:
        kind = self.case.procedure.kind
        if set(self._wanted()) != set(self.case.wrt):
            self.code(f"gradients = {self.entries(self.case.wrt, 'gradients')}")
        results = [f'"outputs": {self.result}']
        results.append('"losses": losses' if kind == "train" else '"losses": [loss]')
        results.append('"gradients": gradients')
        if kind in TWICE:
            results.append('"again": again')
        if kind == "train":
            parameters = [p.name for p in self.case.parameters]
            inside = set(self.given(parameters)) <= set(self._wanted())
            source = "wanted" if inside else "(values | wanted)"
            chosen = source if parameters == self._wanted() else self.entries(parameters, source)
            results.append(f'"parameters": {chosen}')
        self.code(f"return {{{', '.join(results)}{self.state_entry()}}}")

    def state_entry(self) -> str:
        entries = self.state_entries()
        if entries == ["**state"]:
            return f', "state": state{self.generators_entry()}'
        entry: str = super().state_entry()
        return entry

    def state_entries(self) -> list[str]:
        names = {array.name for array in self.case.state}
        found = ["**state"] if self._state else []
        found += [f'"{name}": values["{name}"][...]' for name in self._references]
        written = {f'"{name}": values["{name}"]' for name in names}
        return found + [entry for entry in super().state_entries() if entry not in written]

    def _results(self) -> str:
        return "outputs, state" if self._state else "outputs"

    @property
    def _aux(self) -> str:
        """The keyword with which a function gives more than its loss; empty where it gives the loss."""
        return "" if self.result == "loss" and not self._state else ", has_aux=True"

    def _made(self) -> str:
        """What `jax.vjp` of the loss gives."""
        return f"loss, vjp, {self._tuple()}" if self._aux else "loss, vjp"

    @property
    def result(self) -> str:
        """With state, the pass gives more than its loss. Where it is jitted by itself, outputs are
        given out beside the loss: copies, which are told from what is kept because they are outputs."""
        return "outputs" if self._state or self.stages == "two" else super().result

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
        return self.given(name for name in self.case.names() if name in wanted)

    @property
    def _name(self) -> str:
        """The dict that gradients are taken of: `wanted`, or all `values` where that is the same."""
        whole = self._wanted() == self.value_names() and self.case.procedure.kind != "train"
        return "values" if whole else "wanted"

    def _arrays(self) -> list[str]:
        """What a jitted function is given, and must not take for a constant: tensors and keys."""
        names = self.given(array.name for array in self.case.arrays)
        names += [v.name for v in self._generators() if v.library == "framework"]
        return [*names, *([self._key] if self._random else [])]

    def _generators(self) -> list[Generator]:
        return [value for value in self.case.inputs if isinstance(value, Generator)]

    def _write_values(self) -> list[str]:
        """Write the split of `values` into dicts; returns the expressions that make up the arguments of
        `forward` inside a jitted function."""
        code = self.code
        if self._name == "values":
            return ["values"]
        code(f"wanted = {self.entries(self._wanted())}")
        fixed = self._fixed()
        if fixed and self.case.procedure.kind != "train":
            code(f"fixed = {self.entries(fixed)}")
        values = any(isinstance(value, Value) for value in self.case.inputs)
        values |= any(value.library == "numpy" for value in self._generators())
        return [*(["values"] if values else []), *(["fixed"] if fixed else []), "wanted"]

    def _fixed(self) -> list[str]:
        return [name for name in self._arrays() if name not in self._wanted()]


def _all_names(case: Case) -> set[str]:
    made = {name for _, statement in case.statements() for name in statement.targets}
    return made | set(case.names())
