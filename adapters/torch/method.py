"""How `method` writes a case: a module of PyTorch's own layers, whose methods are recomputed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from conformance.drivers.adapter import Variant
from conformance.emit.emitter import Emitter as Base
from conformance.emit.expressions import function
from conformance.emit.layers import Layer, attributes, taken
from conformance.emit.lists import arguments
from conformance.model.case import Again, Array, Case, Region, Statement, leaves, walk
from conformance.model.program import Site

IMPORTS = ("from torch import nn",)


LAYERS: Mapping[str, Layer] = {
    "linear": Layer("Linear", "x", {"w": "weight", "b": "bias"}),
    "conv2d": Layer("Conv2d", "x", {"w": "weight"}),
    "batch_norm": Layer(
        "BatchNorm2d",
        "x",
        {
            **{"gamma": "weight", "beta": "bias"},
            **{"running_mean": "running_mean", "running_var": "running_var"},
        },
    ),
    "layer_norm": Layer("LayerNorm", "x", {"gamma": "weight", "beta": "bias"}),
    "embedding": Layer("Embedding", "indices", {"table": "weight"}),
}


class Methods(Base):
    """A class per path. What has no layer is a function, its parameters attributes of the module."""

    #: Parameters that are attributes of the module, and names that are local where the program is now.
    _attributes: frozenset[str] = frozenset()
    _local: frozenset[str] = frozenset()

    def __init__(self, case: Case, variant: Variant) -> None:
        super().__init__(case, variant)
        arrays = (*case.parameters, *case.state)
        self._held = {array.name: array for array in arrays}
        self._taken = taken(walk(case.program))
        listed = case.statements()
        self._layers = attributes(s for _, s in listed if self._is_layer(s))
        read = {n for _, s in listed if id(s) not in self._layers for n in s.names()}
        read |= self._taken | set(leaves(case.outputs))
        self._attributes = frozenset(read & set(self._held))

    def _is_layer(self, statement: Statement) -> bool:
        """Whether a layer of PyTorch's does a statement, with the parameters that it reads."""
        layer = LAYERS.get(statement.op)
        if layer is None:
            return False
        given = self.call_of(statement).arguments
        weights = [given[argument] for argument in layer.weights]
        return all(name in self._held and name not in self._taken for name in weights)

    def tensor(self, array: Array, source: str) -> str:
        if array not in self.case.parameters:
            return super().tensor(array, source)  # type: ignore[safe-super]
        data = super().tensor(replace(array, gradient=False), source)  # type: ignore[safe-super]
        return f"nn.Parameter({data}{'' if array.gradient else ', requires_grad=False'})"

    # -- the module ----------------------------------------------------------------------------

    def write_forward(self, path: str) -> None:
        code, case = self.code, self.case
        self.path, self._temporary = path, 0
        name = "PlainNet" if path == "plain" else "RecomputedNet"
        head = f"{', '.join(['self', *self._held])}"
        with code.indent(f"class {name}(nn.Module):"):
            with code.indent(f"def __init__({head}):"):
                code("super().__init__()")
                for held in sorted(self._attributes, key=list(self._held).index):
                    code(f"self.{held} = {held}")
                for _, statement in case.statements():
                    if id(statement) in self._layers:
                        self._write_layer(statement)
            code()
            inputs = ", ".join(["self", *(value.name for value in case.inputs)])
            with code.indent(f"def forward({inputs}):"):
                if case.autocast:
                    self.wrote("autocast")
                    with code.indent(self.autocast.format(dtype=case.autocast)):
                        self.write_nodes(case.program, "")
                else:
                    self.write_nodes(case.program, "")
                self.write_return(case.outputs)
            for region in case.regions():
                self._write_method(region)
        code("\n")
        with code.indent(f"def {path}({', '.join(self._held)}):"):
            code(f"return {name}({', '.join(self._held)})")
        code("\n")

    def _write_layer(self, statement: Statement) -> None:
        """The attribute that is a statement's layer."""
        layer, place = LAYERS[statement.op], f"self.{self._layers[id(statement)]}"
        call = self.call_of(statement)
        names = {a: n.removeprefix("self.") for a, n in call.arguments.items()}
        shape = self._held[names[next(iter(layer.weights))]].shape
        if statement.op == "linear":
            words = [str(shape[1]), str(shape[0])]
        elif statement.op == "conv2d":
            size = str(shape[2]) if shape[2] == shape[3] else str(shape[2:])
            words = [str(shape[1]), str(shape[0]), size]
            words += [f"stride={call.options['stride']}"] if call.options["stride"] != 1 else []
            words += ['padding="same"'] if call.options["padding"] == "same" else []
            words.append("bias=False")
        elif statement.op == "batch_norm":
            momentum, eps = call.options["momentum"], call.options["eps"]
            words = [str(shape[0]), f"momentum={momentum}", f"eps={eps}"]
        elif statement.op == "layer_norm":
            words = [str(shape[0]), f"eps={call.options['eps']}"]
        else:
            words = [str(length) for length in shape]
        self.code(f"{place} = nn.{layer.name}({', '.join(words)})")
        for argument, weight in layer.weights.items():
            self.code(f"{place}.{weight} = {names[argument]}")

    def _write_method(self, region: Region) -> None:
        self.code()
        site = Site("region", self.path, region.name, region.name)
        formals = ", ".join(filter(None, ["self", self.parameters(region)]))
        outer = self._local
        self._local = frozenset(leaves(region.takes) + leaves(region.kwargs))
        with self.code.indent(f"def {function(region.name)}({formals}):", site):
            self.write_unpacking(region)
            with self.casting(region):
                self.write_nodes(region.body, region.name)
            self.write_return(region.gives)
        self._local = outer

    # -- the forward pass ----------------------------------------------------------------------

    def name(self, name: str) -> str:
        return f"self.{name}" if name in self._attributes - self._local else name

    def expression(self, statement: Statement) -> str:
        own = self._layers.get(id(statement))
        if own is None:
            return super().expression(statement)
        return f"self.{own}({self.call_of(statement).arguments[LAYERS[statement.op].takes]})"

    def write_region(self, region: Region) -> None:
        """Nothing: a region is a method of the module."""

    def called(self, node: Region | Again, callee: str, region: Region) -> str:
        place = f"self.{function(region.name)}"
        if self.path == "plain":
            return f"{place}({self.call_arguments(node)})"
        block = "None" if region.block == "invalid" else place
        words: Iterable[Any] = [block, self.call_arguments(node), *self.options(region)]  # type: ignore[attr-defined]
        return f"checkpoint({', '.join(filter(None, words))})"

    # -- run -----------------------------------------------------------------------------------

    def write_before(self) -> None:
        """Before the forward pass: the module, made of its parameters."""
        given = ", ".join(f'values["{name}"]' for name in arguments(self._held, self.in_lists))
        self.code(f"network = forward({given})")

    def write_forward_pass(self) -> None:
        given = ", ".join(f'values["{value.name}"]' for value in self.case.inputs)
        self.write_loss(f"network({given})")
