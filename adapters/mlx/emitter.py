"""How MLX writes a case: functions of arrays, `mx.value_and_grad` of the loss, and `mx.eval`, since
everything before it only builds a graph.

`Emitter` puts `mx.checkpoint` around a region's function. `Modules`, for `module`, hands what the
region captures of the parameters to a module, and puts `nn.utils.checkpoint` around both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from conformance.drivers.adapter import Variant
from conformance.emit.emitter import BACKWARD, FORWARD, Call, Writer, function
from conformance.emit.functional import HIGHER, Functional
from conformance.language.operations import OF_CALLABLES
from conformance.model.case import Again, Array, Case, Generator, Region, Statement, walk

from . import operations


class Emitter(Functional):
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
        "from mlx.utils import tree_map",
    )
    helpers: Mapping[str, str] = operations.HELPERS
    operations: Mapping[str, Writer] = operations.OPERATIONS
    vmap = "mx.vmap"
    shares = True
    lists = "uncaptured"  # what a region captures is an attribute of a module
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
        code, higher = self.code, HIGHER.get(self.case.procedure.kind, "")
        self.write_after()
        self.write_wanted()
        self._write_losses()
        if higher:
            taken = "(_, loss, outputs, gradients), again"
            code(f"{taken} = mx.value_and_grad({higher})({self.of})", FORWARD)
            code("mx.eval(loss, outputs)")
        else:
            self._write_differentiated()
        self.write_between()
        code(f"mx.eval(gradients{', again' if higher else ''})", BACKWARD)
        self.write_returned(again=bool(higher))

    def write_training(self) -> None:
        code = self.code
        self.write_wanted()
        self._write_losses()
        code("losses = []")
        with code.indent(f"for _ in range({self.case.procedure.steps}):"):
            self._write_differentiated()
            self.write_between()
            code("mx.eval(gradients)", BACKWARD)
            self.write_update()
            code("losses.append(loss)")
        self.write_returned()

    def _write_differentiated(self) -> None:
        """The graphs of the loss and of its gradients; what is evaluated is the loss alone."""
        both = self.result != "loss"
        found = "(loss, outputs)" if both else "loss"
        self.code(f"{found}, gradients = mx.value_and_grad(loss_of)({self.of})", FORWARD)
        self.code(f"mx.eval(loss{', outputs' if both else ''})")

    def _write_losses(self) -> None:
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
        with code.indent(f"def total_of({of}):"):
            code(f"(loss, outputs), gradients = mx.value_and_grad(loss_of)({of})")
            code("total = sum(gradient.sum() for gradient in gradients.values())")
            code("return total, loss, outputs, gradients")
        code()
        if kind == "third_order":
            with code.indent(f"def second_total_of({of}):"):
                code(f"(_, *taken), second = mx.value_and_grad(total_of)({of})")
                code("return sum(gradient.sum() for gradient in second.values()), *taken")
            code()


class Modules(Emitter):
    """Writes one case for `module`. What a region captures of the parameters are attributes of a
    module, and what it calls of other regions are submodules."""

    _held: tuple[str, frozenset[str]] = ("", frozenset())

    def write_region(self, region: Region) -> None:
        if self.path == "plain" or region.block == "invalid":
            super().write_region(region)
            return
        captured, called = self._attributes(region)
        module = _module(region.name)
        if captured or called:
            self.code(f"{module} = nn.Module()")
            for name in captured:
                self.code(f"{module}.{name} = {self.name(name)}")
            for name in called:
                self.code(f"{module}.{function(name)} = {_module(name)}")
            self.code()
        with self._reading(module, captured):
            super().write_region(region)

    def _attributes(self, region: Region) -> tuple[list[str], list[str]]:
        """What a region's module has: parameters that the region captures, and the regions called in it
        that are written outside of it and have a module."""
        names = {array.name for array in self.case.parameters}
        own = {node.name for node in walk(region.body) if isinstance(node, Region)}
        called = dict.fromkeys(n.region for n in walk(region.body) if isinstance(n, Again))
        others = [name for name in called if name not in own]
        having = [name for name in others if any(self._attributes(self.region_named(name)))]
        return [name for name in region.captured() if name in names], having

    def checkpoint(self, region: Region) -> str:
        if region.block == "invalid":
            return "nn.utils.checkpoint(None)"
        module = _module(region.name) if any(self._attributes(region)) else "nn.Module()"
        given = ", ".join([module, self.block(region), *self.misuse(region)])
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
