"""How `pynative-layers` and `graph-layers` write a case: cells of MindSpore's own layers.

A statement becomes a call of a layer of `mindspore.nn` where there is one and its weights are
parameters of the case. A region that holds nothing else is that layer itself.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence

from conformance.drivers.adapter import Variant
from conformance.emit.expressions import function, unless_default
from conformance.emit.layers import Layer, Layered, attributes
from conformance.model.case import Case, Node, Option, Ref, Region, Statement, flat
from conformance.model.program import Site

from .cells import Cells


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


class Layers(Cells, Layered, ABC):
    """Writes cells whose statements are calls of layers."""

    layers: Mapping[str, Layer] = {
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

    def __init__(self, case: Case, variant: Variant) -> None:
        super().__init__(case, variant)
        attribute_of: dict[int, str] = {}
        for region in (self._net, *case.regions()):
            own = [node for node in flat(region.body) if isinstance(node, Statement)]
            done = [s for s in own if self.is_layer(s) and not self._is_kept(s, region)]
            attribute_of |= attributes(done)
        self.attribute_of = attribute_of
        #: The statement of each region that is a layer itself.
        self._alone = {
            region.name: node
            for region in case.regions()
            for node in region.body
            if isinstance(node, Statement) and self._is_alone(node, region)
        }

    def _is_alone(self, statement: Statement, region: Region) -> bool:
        """Whether a region is one layer, which does the statement on what the region takes."""
        if region.body != (statement,) or id(statement) not in self.attribute_of:
            return False
        handed = region.takes == tuple(map(Ref, self.operands(statement))) and not region.kwargs
        whole = region.gives == Ref(statement.label) and not region.mapped
        return handed and whole and region.block != "invalid"

    def operands(self, statement: Statement) -> list[str]:
        if id(statement) not in self.attribute_of:
            return super().operands(statement)
        return [self.called_on(statement)]

    # -- regions that are a layer --------------------------------------------------------------

    def alone(self, region: Region) -> Statement | None:
        return self._alone.get(region.name)

    def is_primitive(self, region: Region) -> bool:
        """Whether a region is an operation that is configured by itself: in graph mode one without
        weights, `Primitive.recompute()`."""
        statement = self.alone(region)
        return self.graph and statement is not None and statement.op in self.weightless

    def write_attribute(self, node: Node, around: Region) -> None:
        if isinstance(node, Statement) and id(node) in self.attribute_of:
            self.write_layer(node)
        elif isinstance(node, Region) and (statement := self.alone(node)) is not None:
            label, op = ("", "") if self.graph else (statement.label, statement.op)
            site = Site("layer", self.path, node.name, label, op)
            place = f"self.{function(node.name)}"
            if self.is_primitive(node):
                self.code(f"{place} = ops.{self.primitive(statement)}", site)
            else:
                self.code(f"{place} = {self.constructed(statement)}", site)
                self.write_weights(place, statement)
        else:
            super().write_attribute(node, around)
