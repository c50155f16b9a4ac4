"""How `pynative-layers` and `graph-layers` write a case: cells of MindSpore's own layers.

A statement becomes a call of a layer of `mindspore.nn` where there is one and its weights are
parameters of the case. A region that holds nothing else is that layer itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance.emit.emitter import Emitter
from conformance.emit.emitter import Layers as BaseLayers
from conformance.emit.expressions import function, unless_default
from conformance.emit.layers import Layer, attributes
from conformance.model.case import Node, Option, Ref, Region, Statement, flat
from conformance.model.program import Site

from .cells import Cells, Statements


def _convolution(shape: Sequence[int], options: Mapping[str, Option]) -> str:
    size = str(shape[2]) if shape[2] == shape[3] else str(tuple(shape[2:]))
    words = [str(shape[1]), str(shape[0]), size]
    words += [f"stride={options['stride']}"] if options["stride"] != 1 else []
    words += [f'pad_mode="{options["padding"]}"'] if options["padding"] != "same" else []
    return ", ".join(words)


def _batch_norm(shape: Sequence[int], options: Mapping[str, Option]) -> str:
    momentum = options["momentum"]
    assert isinstance(momentum, float)
    # A layer's momentum is the share of the old value that is kept.
    kept = unless_default("momentum", round(1 - momentum, 12), 0.9)
    return ", ".join([str(shape[0]), *kept, *unless_default("eps", options["eps"], 1e-5)])


def _layer_norm(shape: Sequence[int], options: Mapping[str, Option]) -> str:
    return ", ".join([str(tuple(shape)), *unless_default("epsilon", options["eps"], 1e-7)])


_AFFINE = {"gamma": "gamma", "beta": "beta"}
_RUNNING = {"running_mean": "moving_mean", "running_var": "moving_variance"}


class Layers(BaseLayers):
    """MindSpore's layers."""

    layers_with_weights: Mapping[str, Layer] = {
        "linear": Layer("Dense", "x", {"w": "weight", "b": "bias"}, "{1}, {0}"),
        "conv2d": Layer("Conv2d", "x", {"w": "weight"}, _convolution),
        "batch_norm": Layer("BatchNorm2d", "x", {**_AFFINE, **_RUNNING}, _batch_norm),
        "layer_norm": Layer("LayerNorm", "x", _AFFINE, _layer_norm),
    }
    weightless: Mapping[str, str] = {
        "relu": "ReLU()",
        "tanh": "Tanh()",
        "sigmoid": "Sigmoid()",
        "dropout": "Dropout(p={p})",
        "softmax": "Softmax({axis})",
        "max_pool2d": "MaxPool2d({size}, {size})",
    }

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        assert isinstance(emitter.body, Statements)
        self._statements, case = emitter.body, self.case
        of_regions = [(region.body, region) for region in case.regions()]
        attribute_of: dict[int, str] = {}
        for nodes, region in ((case.program, None), *of_regions):
            own = [node for node in flat(nodes) if isinstance(node, Statement)]
            kept = [s for s in own if region is not None and emitter.body.is_kept(s, region)]
            attribute_of |= attributes(s for s in own if self.is_layer(s) and s not in kept)
        self.attribute_of = attribute_of

    def alone(self, region: Region) -> Statement | None:
        """The statement of a region that is one layer, which does it on what the region takes."""
        if len(region.body) != 1 or id(statement := region.body[0]) not in self.attribute_of:
            return None
        assert isinstance(statement, Statement)
        operands = self._statements.operands(statement)
        handed = region.takes == tuple(map(Ref, operands)) and not region.kwargs
        whole = region.gives == Ref(statement.label) and not region.mapped
        return statement if handed and whole and region.block != "invalid" else None


class CellsOfLayers(Cells):
    """Cells whose statements are calls of layers. A region that is one layer is that layer."""

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        assert isinstance(emitter.layers, Layers)
        layers = self._made = emitter.layers
        self._alone = {region.name: layers.alone(region) for region in self.case.regions()}

    def alone(self, region: Region) -> Statement | None:
        return self._alone.get(region.name)

    def is_primitive(self, region: Region) -> bool:
        """Whether a region is an operation that is configured by itself: in graph mode one without
        weights, `Primitive.recompute()`."""
        if self.variant.name.startswith("model-"):  # all of them are `Cell.recompute()`
            return False
        statement = self.alone(region)
        return self.plan.graph and statement is not None and statement.op in self._made.weightless

    def write_attribute(self, node: Node, around: Region) -> None:
        if isinstance(node, Statement) and id(node) in self._made.attribute_of:
            self._made.write_layer(node)
        elif isinstance(node, Region) and (statement := self.alone(node)) is not None:
            label, op = ("", "") if self.plan.graph else (statement.label, statement.op)
            site = Site("layer", self.path, node.name, label, op)
            place = f"self.{function(node.name)}"
            if self.is_primitive(node):
                self.code(f"{place} = ops.{self.statements.primitive(statement)}", site)
            else:
                self.code(f"{place} = {self._made.constructed(statement)}", site)
                self._made.write_weights(place, statement)
        else:
            super().write_attribute(node, around)
