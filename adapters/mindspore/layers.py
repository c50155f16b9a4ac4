"""How `pynative-layers` and `graph-layers` write a case: cells of MindSpore's own layers.

A statement becomes a call of a layer of `mindspore.nn` where there is one and its weights are
parameters of the case. A region that holds nothing else is that layer itself.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping

from conformance.drivers.adapter import Variant
from conformance.emit.expressions import function, short_exponents
from conformance.emit.layers import Layer, attributes, taken
from conformance.model.case import Case, Node, Ref, Region, Statement, flat, walk
from conformance.model.program import Site

from .cells import Cells

#: Layers without weights, constructed out of an operation's options.
WEIGHTLESS: Mapping[str, str] = {
    "relu": "ReLU()",
    "tanh": "Tanh()",
    "sigmoid": "Sigmoid()",
    "dropout": "Dropout(p={p})",
    "softmax": "Softmax({axis})",
    "max_pool2d": "MaxPool2d({size}, {size})",
}
#: Layers with weights.
LAYERS: Mapping[str, Layer] = {
    "linear": Layer("Dense", "x", {"w": "weight", "b": "bias"}),
    "conv2d": Layer("Conv2d", "x", {"w": "weight"}),
    "batch_norm": Layer(
        "BatchNorm2d",
        "x",
        {
            **{"gamma": "gamma", "beta": "beta"},
            **{"running_mean": "moving_mean", "running_var": "moving_variance"},
        },
    ),
    "layer_norm": Layer("LayerNorm", "x", {"gamma": "gamma", "beta": "beta"}),
}


class Layers(Cells, ABC):
    """Writes cells whose statements are calls of layers."""

    def __init__(self, case: Case, variant: Variant) -> None:
        super().__init__(case, variant)
        self._arrays = {array.name: array for array in (*case.parameters, *case.state)}
        self._taken = taken(walk(case.program))
        #: For each statement that a layer does, the layer's attribute.
        self._layers: dict[int, str] = {}
        for region in (self._net, *case.regions()):
            own = [node for node in flat(region.body) if isinstance(node, Statement)]
            done = [s for s in own if self._is_layer(s) and not self._is_kept(s, region)]
            self._layers |= attributes(done)
        #: The statement of each region that is a layer itself.
        self._alone = {
            region.name: node
            for region in case.regions()
            for node in region.body
            if isinstance(node, Statement) and self._is_alone(node, region)
        }

    def _is_layer(self, statement: Statement) -> bool:
        """Whether a statement can be written as a layer that owns the parameters it reads."""
        if statement.op in WEIGHTLESS:
            seed = self.call_of(statement).options.get("seed")
            return seed is None and isinstance(statement.arguments[0], Ref)
        weights = self._weights_of(statement).values()
        owned = all(name in self._arrays and name not in self._taken for name in weights)
        return statement.op in LAYERS and owned

    def _weights_of(self, statement: Statement) -> dict[str, str]:
        """The names that a layer is made of, by the layer's attribute; none for one without weights."""
        given = self.call_of(statement).arguments
        layer = LAYERS.get(statement.op)
        return {w: given[a] for a, w in layer.weights.items()} if layer else {}

    def _is_alone(self, statement: Statement, region: Region) -> bool:
        """Whether a region is one layer, which does the statement on what the region takes."""
        if region.body != (statement,) or id(statement) not in self._layers:
            return False
        handed = region.takes == tuple(map(Ref, self.operands(statement))) and not region.kwargs
        whole = region.gives == Ref(statement.label) and not region.mapped
        return handed and whole and region.block != "invalid"

    # -- layers --------------------------------------------------------------------------------

    def _constructed(self, statement: Statement) -> str:
        """The construction of the layer that does a statement."""
        call = self.call_of(statement)
        if statement.op in WEIGHTLESS:
            return f"nn.{WEIGHTLESS[statement.op].format(**call.options)}"
        shape = self._arrays[next(iter(self._weights_of(statement).values()))].shape
        if statement.op == "linear":
            words = [str(shape[1]), str(shape[0])]
        elif statement.op == "conv2d":
            size = str(shape[2]) if shape[2] == shape[3] else str(shape[2:])
            words = [str(shape[1]), str(shape[0]), size]
            words += [f"stride={call.options['stride']}"] if call.options["stride"] != 1 else []
            padding = call.options["padding"]
            words += [f'pad_mode="{padding}"'] if padding != "same" else []
        elif statement.op == "batch_norm":
            momentum = call.options["momentum"]
            assert isinstance(momentum, float)
            # A layer's momentum is the share of the old value that is kept.
            words = [str(shape[0]), *_unless(0.9, "momentum", round(1 - momentum, 12))]
            words += _unless(1e-5, "eps", call.options["eps"])
        else:
            words = [str(shape), *_unless(1e-7, "epsilon", call.options["eps"])]
        return f"nn.{LAYERS[statement.op].name}({', '.join(words)})"

    def _write_layer(self, place: str, statement: Statement, site: Site | None = None) -> None:
        self.code(f"{place} = {self._constructed(statement)}", site)
        for weight, name in self._weights_of(statement).items():
            self.code(f"{place}.{weight} = {name}")

    def operands(self, statement: Statement) -> list[str]:
        if id(statement) not in self._layers:
            return super().operands(statement)
        layer = LAYERS.get(statement.op)
        return [self.call_of(statement).arguments[layer.takes if layer else "x"]]

    def expression(self, statement: Statement) -> str:
        if id(statement) not in self._layers:
            return super().expression(statement)
        return f"self.{self._layers[id(statement)]}({', '.join(self.operands(statement))})"

    # -- regions that are a layer --------------------------------------------------------------

    def alone(self, region: Region) -> Statement | None:
        return self._alone.get(region.name)

    def is_primitive(self, region: Region) -> bool:
        """Whether a region is an operation that is configured by itself: in graph mode one without
        weights, `Primitive.recompute()`."""
        statement = self.alone(region)
        return self.graph and statement is not None and statement.op in WEIGHTLESS

    def write_attribute(self, node: Node, around: Region) -> None:
        if isinstance(node, Statement) and id(node) in self._layers:
            self._write_layer(f"self.{self._layers[id(node)]}", node)
        elif isinstance(node, Region) and (statement := self.alone(node)) is not None:
            label, op = ("", "") if self.graph else (statement.label, statement.op)
            site = Site("layer", self.path, node.name, label, op)
            place = f"self.{function(node.name)}"
            if self.is_primitive(node):
                self.code(f"{place} = ops.{self.primitive(statement)}", site)
            else:
                self._write_layer(place, statement, site)
        else:
            super().write_attribute(node, around)


def _unless(default: float, keyword: str, value: object) -> list[str]:
    """A keyword argument, where it is not MindSpore's default."""
    return [] if value == default else [f"{keyword}={short_exponents(repr(value))}"]
