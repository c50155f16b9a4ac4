"""How `method` writes a case: a module of PyTorch's own layers, whose methods are recomputed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext

from conformance.drivers.adapter import Variant
from conformance.emit.expressions import function
from conformance.emit.layers import Layer, Networks, attributes, convolution
from conformance.model.case import Case, leaves

_AFFINE = {"gamma": "weight", "beta": "bias"}
_RUNNING = {"running_mean": "running_mean", "running_var": "running_var"}


class Methods(Networks):
    """A class per path. What has no layer is a function, its parameters attributes of the module."""

    layers: Mapping[str, Layer] = {
        "linear": Layer("Linear", "x", {"w": "weight", "b": "bias"}, "{1}, {0}"),
        "conv2d": Layer("Conv2d", "x", {"w": "weight"}, convolution("bias=False")),
        "batch_norm": Layer(
            *("BatchNorm2d", "x", {**_AFFINE, **_RUNNING}),
            "{0}, momentum={momentum}, eps={eps}",
        ),
        "layer_norm": Layer("LayerNorm", "x", _AFFINE, "{0}, eps={eps}"),
        "embedding": Layer("Embedding", "indices", {"table": "weight"}, "{0}, {1}"),
    }

    def __init__(self, case: Case, variant: Variant) -> None:
        super().__init__(case, variant)
        statements = [statement for _, statement in case.statements()]
        self._done = [statement for statement in statements if self.is_layer(statement)]
        self.attribute_of = attributes(self._done)
        read = {n for s in statements if id(s) not in self.attribute_of for n in s.names()}
        read |= self._taken | set(leaves(case.outputs))
        #: Parameters that are attributes of the module, in order.
        self._own = [name for name in self.tensors if name in read]

    def write_forward(self, path: str) -> None:
        code, case = self.code, self.case
        self.path, self._temporary = path, 0
        name = "PlainNet" if path == "plain" else "RecomputedNet"
        with code.indent(f"class {name}(nn.Module):"):
            with code.indent(f"def __init__({', '.join(['self', *self.tensors])}):"):
                code("super().__init__()")
                for held in self._own:
                    code(f"self.{held} = {held}")
                for statement in self._done:
                    self.write_layer(statement)
            code()
            inputs = ", ".join(["self", *(value.name for value in case.inputs)])
            with code.indent(f"def forward({inputs}):"), self.reading(self._own):
                if case.autocast:
                    self.wrote("autocast")
                head = self.autocast.format(dtype=case.autocast)
                with code.indent(head) if case.autocast else nullcontext():
                    self.write_nodes(case.program, "")
                self.write_return(case.outputs)
            for region in case.regions():
                code()
                local = leaves(region.takes) + leaves(region.kwargs)
                own = [name for name in self._own if name not in local]
                self.write_method(function(region.name), region, own)
        code("\n")
        self.write_maker(path, name)
