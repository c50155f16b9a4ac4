"""How MLX writes a case: functions of arrays, `mx.value_and_grad` of the loss, and `mx.eval`, since
everything before it only builds a graph.

`Emitter` puts `mx.checkpoint` around a region's function. `Modules`, for `module`, hands what the
region captures of the parameters to a module, and puts `nn.utils.checkpoint` around both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from conformance.drivers.adapter import Variant
from conformance.emit.emitter import BACKWARD, FORWARD, Call, Writer, function, listed
from conformance.emit.emitter import Emitter as Base
from conformance.language.operations import OF_CALLABLES
from conformance.model.case import Again, Array, Case, Generator, Region, Statement, walk

from . import operations

#: Procedures that differentiate the sum of all gradients once more, and once more again.
HIGHER = {"second_order": "total_of", "third_order": "second_total_of"}


class Emitter(Base):
    """Writes one case for `function`; `Modules` does for `module`."""

    procedures_written = (
        *("backward", "part", "functional", "second_order", "third_order"),
        *("inference", "train"),
    )
    imports = (
        "import random",
        "import mlx.core as mx",
        "from mlx import nn",
        "import numpy as np",
    )
    helpers: Mapping[str, str] = operations.HELPERS
    operations: Mapping[str, Writer] = operations.OPERATIONS
    vmap = "mx.vmap"
    seeding = "mx.random.seed({seed})"
    drawing = "mx.random.uniform()"
    halving = "for name in {names}:\n    values[name] *= 0.5"

    def __new__(cls, case: Case, variant: Variant) -> Emitter:
        return super().__new__(Modules if variant.name == "module" else cls)

    # -- inputs ----------------------------------------------------------------------------------

    def tensor(self, array: Array, source: str) -> str:
        return f"mx.array({source}, mx.{array.dtype})"

    def framework_generator(self, seed: int) -> str:
        return f"mx.random.key({seed})"

    # -- operations ------------------------------------------------------------------------------

    def call_of(self, statement: Statement) -> Call:
        call = super().call_of(statement)
        of_numpy = {
            i.name for i in self.case.inputs if isinstance(i, Generator) and i.library == "numpy"
        }
        if statement.op == "uniform_from" and not of_numpy.isdisjoint(statement.names()):
            low, high, shape = (call.options[word] for word in ("low", "high", "shape"))
            numbers = f"{call.arguments['generator']}.uniform({low}, {high}, {shape})"
            return Call(call.op, {"numbers": numbers}, call.options, statement)
        return call

    def expression(self, statement: Statement) -> str:
        if statement.op in OF_CALLABLES:
            return self.of_callable(statement, "remat_")
        return super().expression(statement)

    # -- regions ---------------------------------------------------------------------------------

    def write_region(self, region: Region) -> None:
        super().write_region(region)
        if self.path == "recomputed" and self.made_once(region):
            self.code(f"remat_{function(region.name)} = {self.checkpoint(region)}")

    def recompute(self, region: Region) -> str:
        named = self.made_once(region)
        return f"remat_{function(region.name)}" if named else self.checkpoint(region)

    def checkpoint(self, region: Region) -> str:
        """The expression that makes the recomputed callable."""
        return f"mx.checkpoint({', '.join([self.block(region), *self.misuse(region)])})"

    def block(self, region: Region) -> str:
        """What is handed over to be recomputed."""
        return "None" if region.block == "invalid" else function(region.name)

    # -- run -------------------------------------------------------------------------------------

    inferring = "mx.eval(forward(**values))"

    def write_inference(self) -> None:
        self.code("outputs = forward(**values)", FORWARD)
        self.code("mx.eval(outputs)")
        self.code(f'return {{"outputs": outputs{self.state_entry()}}}')

    def write_gradients(self) -> None:
        code, kind = self.code, self.case.procedure.kind
        self.write_after()
        self._write_losses()
        higher = kind in HIGHER
        if higher:
            taken = "(_, loss, outputs, gradients), again"
            code(f"{taken} = mx.value_and_grad({HIGHER[kind]})(wanted)", FORWARD)
        else:
            code("(loss, outputs), gradients = mx.value_and_grad(loss_of)(wanted)", FORWARD)
        code("mx.eval(loss, outputs)")
        self.write_between()
        code("mx.eval(gradients, again)" if higher else "mx.eval(gradients)", BACKWARD)
        gradients = "gradients"
        if set(self._wanted()) != set(self.case.wrt):
            gradients = self.entries(self.case.wrt, "gradients")
        again = ', "again": again' if higher else ""
        results = f'"outputs": outputs, "losses": [loss], "gradients": {gradients}{again}'
        code(f"return {{{results}{self.state_entry()}}}")

    def write_training(self) -> None:
        code, procedure = self.code, self.case.procedure
        trained = [p.name for p in self.case.parameters if p.gradient]
        code("losses = []")
        with code.indent(f"for _ in range({procedure.steps}):"):
            self._write_losses()
            code("(loss, outputs), gradients = mx.value_and_grad(loss_of)(wanted)", FORWARD)
            code("mx.eval(loss, outputs)")
            self.write_between()
            code("mx.eval(gradients)", BACKWARD)
            with code.indent(f"for name in {listed(trained)}:"):
                code(f"values[name] = values[name] - {procedure.learning_rate} * gradients[name]")
            code("losses.append(loss)")
        parameters = self.entries([p.name for p in self.case.parameters], "values")
        gradients = "gradients"
        if list(self.case.wrt) != self._wanted():
            gradients = self.entries(self.case.wrt, "gradients")
        results = f'"outputs": outputs, "losses": losses, "gradients": {gradients}, '
        code(f'return {{{results}"parameters": {parameters}{self.state_entry()}}}')

    def _write_losses(self) -> None:
        """What is differentiated: `wanted`, the loss as a function of it, and for higher orders the sum
        of all gradients as another one."""
        code, kind = self.code, self.case.procedure.kind
        code(f"wanted = {self.entries(self._wanted(), 'values')}")
        code()
        with code.indent("def loss_of(wanted):"):
            code("outputs = forward(**values | wanted)")
            code(f"return {self.loss()}, outputs")
        code()
        if kind not in HIGHER:
            return
        with code.indent("def total_of(wanted):"):
            code("(loss, outputs), gradients = mx.value_and_grad(loss_of)(wanted)")
            code("total = sum(gradient.sum() for gradient in gradients.values())")
            code("return total, loss, outputs, gradients")
        code()
        if kind == "third_order":
            with code.indent("def second_total_of(wanted):"):
                code("(_, *taken), second = mx.value_and_grad(total_of)(wanted)")
                code("return sum(gradient.sum() for gradient in second.values()), *taken")
            code()

    def _wanted(self) -> list[str]:
        """The names that gradients are taken of: what the case asks for, and what is trained."""
        trained = [p.name for p in self.case.parameters if p.gradient]
        wanted = {*self.case.wrt, *(trained if self.case.procedure.kind == "train" else ())}
        return [name for name in self.case.names() if name in wanted]


class Modules(Emitter):
    """Writes one case for `module`. What a region captures of the parameters are attributes of a
    module, and what it calls of other regions are submodules."""

    _held: tuple[str, frozenset[str]] = ("", frozenset())

    def write_region(self, region: Region) -> None:
        if self.path == "plain" or region.block == "invalid":
            super().write_region(region)
            return
        names = {array.name for array in self.case.parameters}
        captured = [name for name in region.captured() if name in names]
        module = _module(region.name)
        self.code(f"{module} = nn.Module()")
        for name in captured:
            self.code(f"{module}.{name} = {self.name(name)}")
        own = {node.name for node in walk(region.body) if isinstance(node, Region)}
        called = [node.region for node in walk(region.body) if isinstance(node, Again)]
        for name in dict.fromkeys(called):
            if name not in own:
                self.code(f"{module}.{function(name)} = {_module(name)}")
        self.code()
        with self._reading(module, captured):
            self._write_function(region)
        if self.made_once(region):
            self.code(f"remat_{function(region.name)} = {self.checkpoint(region)}")

    def _write_function(self, region: Region) -> None:
        Base.write_region(self, region)

    def checkpoint(self, region: Region) -> str:
        if region.block == "invalid":
            return "nn.utils.checkpoint(None)"
        given = ", ".join([_module(region.name), self.block(region), *self.misuse(region)])
        return f"nn.utils.checkpoint({given})"

    @contextmanager
    def _reading(self, module: str, names: Iterable[str]) -> Iterator[None]:
        """Inside, these names are attributes of the module."""
        outer, self._held = self._held, (module, frozenset(names))
        yield
        self._held = outer

    def name(self, name: str) -> str:
        module, names = self._held
        return f"{module}.{name}" if name in names else name


def _module(region: str) -> str:
    return f"{function(region)}_module"
