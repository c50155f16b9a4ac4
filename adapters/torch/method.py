"""How `method` writes a case: a module of PyTorch's own layers, whose methods are recomputed."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.emit.emitter import Emitter
from conformance.emit.emitter import Layers as Base
from conformance.emit.expressions import function
from conformance.emit.layers import Layer, Networks, attributes, convolution
from conformance.model.case import leaves

from .modules import network

_AFFINE = {"gamma": "weight", "beta": "bias"}
_RUNNING = {"running_mean": "running_mean", "running_var": "running_var"}


class Layers(Base):
    """PyTorch's layers, in one network. What has no layer is a function, its parameters attributes of
    the network."""

    layers_with_weights: Mapping[str, Layer] = {
        "linear": Layer("Linear", "x", {"w": "weight", "b": "bias"}, "{1}, {0}"),
        "conv2d": Layer("Conv2d", "x", {"w": "weight"}, convolution("bias=False")),
        "batch_norm": Layer(
            *("BatchNorm2d", "x", {**_AFFINE, **_RUNNING}),
            "{0}, momentum={momentum}, eps={eps}",
        ),
        "layer_norm": Layer("LayerNorm", "x", _AFFINE, "{0}, eps={eps}"),
        "embedding": Layer("Embedding", "indices", {"table": "weight"}, "{0}, {1}"),
    }

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        statements = [statement for _, statement in self.case.statements()]
        self.attribute_of = attributes(filter(self.is_layer, statements))


class Methods(Networks):
    """A class per path, whose methods are the regions."""

    def write_forward(self, path: str) -> None:
        case, layers = self.case, self.layers
        self.body.temporary = 0
        statements = [statement for _, statement in case.statements()]
        done = [s for s in statements if id(s) in layers.attribute_of]
        read = {n for s in statements if id(s) not in layers.attribute_of for n in s.names()}
        read |= layers.taken | set(leaves(case.outputs))
        attributes = [name for name in layers.held if name in read]
        name = "PlainNet" if path == "plain" else "RecomputedNet"
        with network(self, name, attributes, layers=done):
            for region in case.regions():
                local = leaves(region.takes) + leaves(region.kwargs)
                kept = [held for held in attributes if held not in local]
                self.write_method(function(region.name), region, kept)
        self.write_maker(path, name)
