"""How `layers` and `model-fit` write a case: a network of Paddle's own layers, each region one of them.

A region whose statements are layers, one after the other, is a `paddle.nn.Sequential`, any other a
class. What Paddle has no layer for is called as a function. `model-fit` has `paddle.Model` train it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from conformance.emit.accumulating import Accumulating
from conformance.emit.code import BACKWARD, FORWARD, MARK
from conformance.emit.emitter import Emitter, Values
from conformance.emit.emitter import Layers as BaseLayers
from conformance.emit.expressions import class_name, function, unless_default
from conformance.emit.layers import Layer, attributes, convolution, taken
from conformance.emit.layers import Networks as Base
from conformance.errors import AdapterError
from conformance.model.case import (
    Again,
    Array,
    Node,
    Option,
    Ref,
    Region,
    Statement,
    flat,
    leaves,
    walk,
)
from conformance.model.program import Site


def batch_norm_options(options: Mapping[str, Option]) -> list[str]:
    """The keywords of BatchNorm. Paddle's momentum is the share of the old value that is kept."""
    momentum = options["momentum"]
    assert isinstance(momentum, float)
    kept = unless_default("momentum", round(1 - momentum, 12), 0.9)
    return kept + unless_default("epsilon", options["eps"], 1e-5)


def _batch_norm(shape: Sequence[int], options: Mapping[str, Option]) -> str:
    return ", ".join([str(shape[0]), *batch_norm_options(options)])


def _layer_norm(shape: Sequence[int], options: Mapping[str, Option]) -> str:
    return ", ".join([str(shape[0]), *unless_default("epsilon", options["eps"], 1e-5)])


_AFFINE = {"gamma": "weight", "beta": "bias"}
_RUNNING = {"running_mean": "_mean", "running_var": "_variance"}
#: A missing gradient is `None`. Both stand at the end of the program.
TURNED = """
    # nn.Linear keeps a weight as (in, out). This gives it, or its gradient, as (out, in).
    def turned(array):
        return None if array is None else array.T
    """
KEEPING = """
    # fit clears the gradients after a step: this optimizer keeps those of the last one.
    class SGD(paddle.optimizer.SGD):
        def minimize(self, loss, **options):
            self.gradients = {
                p.name: None if p.grad is None else p.grad.clone() for p in self._parameter_list
            }
            return super().minimize(loss, **options)
    """


class Layers(BaseLayers):
    """Paddle's layers, and those of a network that are given what the case says."""

    layers_with_weights: Mapping[str, Layer] = {
        "linear": Layer("Linear", "x", {"w": "weight", "b": "bias"}, "{1}, {0}"),
        "matmul": Layer("Linear", "a", {"b": "weight"}, "{0}, {1}, bias_attr=False"),
        "conv2d": Layer("Conv2D", "x", {"w": "weight"}, convolution("bias_attr=False")),
        "batch_norm": Layer("BatchNorm2D", "x", _AFFINE, _batch_norm, _RUNNING),
        "layer_norm": Layer("LayerNorm", "x", _AFFINE, _layer_norm),
        "embedding": Layer("Embedding", "indices", {"table": "weight"}, "{0}, {1}"),
    }
    weightless: Mapping[str, str] = {
        "relu": "ReLU()",
        "gelu": "GELU()",
        "tanh": "Tanh()",
        "sigmoid": "Sigmoid()",
        "dropout": "Dropout({p})",
        "max_pool2d": "MaxPool2D({size})",
        "avg_pool2d": "AvgPool2D({size})",
        "softmax": "Softmax({axis})",
    }

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        #: For each array of the state that is a layer's buffer, its place from the layer around it.
        self.buffers: dict[str, str] = {}
        #: The weights that Paddle's layers have transposed.
        self.turned: frozenset[str] = frozenset()
        self.turned = frozenset(self._transposed())

    def _transposed(self) -> Iterator[str]:
        """Weights of `linear` and of nothing else: Paddle's layer has them transposed."""
        uses: dict[str, set[tuple[str, str]]] = {}
        for _, statement in self.case.statements():
            for argument, name in self.body.call_of(statement).arguments.items():
                uses.setdefault(name, set()).add((statement.op, argument))
        for array in self.case.parameters:
            if uses.get(array.name) == {("linear", "w")} and self.can_own(array.name):
                yield array.name

    def is_layer(self, statement: Statement) -> bool:
        turns = (
            statement.op != "linear" or self.body.call_of(statement).arguments["w"] in self.turned
        )
        return turns and super().is_layer(statement)

    def write_weights(self, place: str, statement: Statement, held: str = "") -> None:
        """The weights and buffers of a layer; `held` is where it stays, if not at `place`."""
        super().write_weights(place, statement)
        layer = self.layers_with_weights.get(statement.op)
        if layer is None or not layer.buffers:
            return
        given = self.body.call_of(statement).arguments
        pairs = [f'"{buffer}": {given[name]}' for name, buffer in layer.buffers.items()]
        self.code(f"{place}.set_state_dict({{{', '.join(pairs)}}})")
        for argument, buffer in layer.buffers.items():
            self.buffers[given[argument]] = f"{held or place}.{buffer}".removeprefix("self.")

    def is_sequence(self, region: Region) -> bool:
        """Whether a region's statements are layers, each called on what the last one gave."""
        single = len(region.takes) == 1 and isinstance(region.takes[0], Ref) and not region.kwargs
        if not single or not isinstance(region.gives, Ref) or region.signature != "plain":
            return False
        handed = region.takes[0].name  # type: ignore[union-attr]
        labels = []
        for node in flat(region.body):
            if not isinstance(node, Statement) or not self.is_layer(node):
                return False
            if self.called_on(node) != handed:
                return False
            handed = node.label
            labels.append(handed)
        return handed == region.gives.name and len(set(labels)) == len(labels)


class Turned(Values):
    """Parameters and gradients with the axes that the case has, and the buffers of layers."""

    layers: Layers

    def write_helpers(self) -> None:
        """The function that turns a weight or a gradient, where one is turned."""
        if self.layers.turned:
            self.code(TURNED)

    def taken(self, name: str, expression: str) -> str:
        """A parameter, or its gradient, with the axes that the case has."""
        return f"turned({expression})" if name in self.layers.turned else expression

    def chosen(self, arrays: Iterable[Array]) -> str:
        pairs = (f'"{a.name}": {self.taken(a.name, self.value(a.name))}' for a in arrays)
        return "{" + ", ".join(pairs) + "}"

    def gradients(self) -> str:
        pairs = (f'"{n}": {self.taken(n, self.value(n) + ".grad")}' for n in self.case.wrt)
        return "{" + ", ".join(pairs) + "}"

    def state(self) -> list[str]:
        """Buffers are the layers' own, which start as copies."""
        buffers, others = [], []
        for array in self.case.state:
            place = self.layers.buffers.get(array.name)
            if place is None:
                others.append(f'"{array.name}": {_value(array.name)}')
                continue
            around = [
                function(region.name)
                for region in self.case.regions()
                if not self.layers.is_sequence(region) and array.name in region.captured()
            ]
            buffers.append(f'"{array.name}": {".".join(["network", *around, place])}')
        return others + buffers


class Networks(Base):
    """Writes `plain` and `recomputed` as functions that make a network, given its parameters."""

    layers: Layers

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        self._given = [value.name for value in self.case.inputs]
        self._defined: set[str] = set()
        #: For each class of `plain`, the lines of its `__init__`.
        self._inits: dict[str, list[str]] = {}

    @cached_property
    def makes_network(self) -> bool:  # type: ignore[override]
        """Whether the program around the layers is a network, which has something to hold, and no
        function."""
        case, regions = self.case, self.case.regions()
        own = [node for node in flat(case.program) if isinstance(node, Statement)]
        return not (
            case.procedure.kind == "backward"
            and not case.state
            and not any(r.captured() or r.block == "invalid" for r in regions)
            and not any(isinstance(n, Region) for r in regions for n in walk(r.body))
            and not any(map(self.layers.is_layer, own))
        )

    def write_forward(self, path: str) -> None:
        self.body.temporary = 0
        if not self.makes_network:
            if path == "plain":
                self._write_layers()
            super().write_forward(path)
            return
        name = "Net" if path == "plain" else "RecomputedNet"
        self._write_class(name, list(self.layers.held), self.case.program, None)
        self.write_maker(path, name)

    def _write_layers(self) -> None:
        """The classes and layers of regions, which no other layer holds."""
        regions = [node for node in self.case.program if isinstance(node, Region)]
        for region in regions:
            if not self.layers.is_sequence(region):
                self._defined.add(self._class(region))
                self._write_class(self._class(region), [], region.body, region)
        for region in regions:
            self._write_held(region, function(region.name))

    def _write_class(
        self, name: str, given: Sequence[str], nodes: Sequence[Node], region: Region | None
    ) -> None:
        """A layer's class, after those of the regions in it. `given` are the arguments of `__init__`."""
        code = self.code
        inner = [node for node in nodes if isinstance(node, Region)]
        for part in inner:
            if not self.layers.is_sequence(part) and self._class(part) not in self._defined:
                self._defined.add(self._class(part))
                self._write_class(self._class(part), self._captured(part), part.body, part)
        statements = [node for node in flat(nodes) if isinstance(node, Statement)]
        made = [s for s in statements if self.layers.is_layer(s)]
        outer, self.layers.attribute_of = self.layers.attribute_of, attributes(made)
        read = {name for s in statements if s not in made for name in s.names()}
        read |= taken(nodes)
        own = [n for n in given if n in read | set(leaves(region.gives if region else ()))]
        with code.indent(f"class {name}(nn.Layer):"):
            top = len(code.lines)
            with code.indent(f"def __init__({', '.join(['self', *given])}):"):
                code("super().__init__()")
                begin = len(code.lines)
                for attribute in own:
                    code(f"self.{attribute} = {attribute}")
                for node in flat(nodes):
                    if isinstance(node, Region):
                        self._write_held(node)
                    elif isinstance(node, Statement) and id(node) in self.layers.attribute_of:
                        self.layers.write_layer(node)
            if len(code.lines) == begin and not given:
                del code.lines[top:]  # a layer that has nothing of its own needs no `__init__`
            elif self._is_made_alike(code.lines[top:], base := name.removeprefix("Recomputed")):
                del code.lines[top:]
                code.lines[-1] = f"class {name}({base}):"
            else:
                self._inits.setdefault(name, code.lines[top:])
            if region is not None:
                self.write_method("forward", region, own)
            else:
                head = f"def forward({', '.join(['self', *self._given])}):"
                read_from_self = {attribute: f"self.{attribute}" for attribute in own}
                with code.indent(head), self.body.spelling(read_from_self):
                    self.body.write_nodes(nodes, "")
                    self.body.write_return(self.case.outputs)
        self.layers.attribute_of = outer

    def _is_made_alike(self, lines: Sequence[str], base: str) -> bool:
        """Whether a class of `recomputed` can inherit the `__init__` of the one of `plain`."""
        before = self._inits.get(base)
        if before is None or _unmarked(lines) != _unmarked(before):
            return False
        for line in before:
            if mark := MARK.search(line):
                number = int(mark[1])
                self.code.sites[number] = self.code.sites[number]._replace(path="both")
        return True

    def _class(self, region: Region) -> str:
        name = class_name(region.name)
        inside = any(isinstance(node, Region | Again) for node in flat(region.body))
        return f"Recomputed{name}" if self.path == "recomputed" and inside else name

    def _captured(self, region: Region) -> list[str]:
        """The arguments of the constructor of a region's layer. Raises `AdapterError` where the region
        captures a computed tensor, which a layer cannot hold."""
        captured = list(region.captured())
        others = set(captured) - set(self.layers.held)
        if others:
            raise AdapterError(f"{self.variant.id}: a layer cannot hold {min(others)!r}")
        return captured

    def _write_held(self, region: Region, place: str = "") -> None:
        """The attribute (or the variable `place`) that is a region's layer."""
        place = place or f"self.{function(region.name)}"
        if region.block == "invalid" and self.path == "recomputed":
            return
        if not self.layers.is_sequence(region):
            self.code(f"{place} = {self._class(region)}({', '.join(self._captured(region))})")
            return
        names = self._names_of_layers(region, place)
        for number, (name, statement) in enumerate(zip(names, flat(region.body), strict=True)):
            assert isinstance(statement, Statement)
            site = Site("layer", self.path, region.name, statement.label, statement.op)
            self.code(f"{name} = {self.layers.constructed(statement)}", site)
            self.layers.write_weights(name, statement, f"{place}[{number}]")
        layers = f"nn.Sequential({', '.join(names)})"
        self.code(f"{place} = {layers}", Site("layer", self.path, region.name, ""))

    def _names_of_layers(self, region: Region, place: str) -> list[str]:
        """The variables of the layers of a sequence: named after what they give, and after the region
        too where another one stands beside it."""
        labels = [node.label for node in flat(region.body) if isinstance(node, Statement)]
        others = [r for r in self.case.regions() if r is not region]
        nodes = (node for other in others for node in flat(other.body))
        taken = {node.label for node in nodes if isinstance(node, Statement)}
        taken |= {*self.case.names(), *(function(r.name) for r in self.case.regions())}
        if taken.isdisjoint(labels):
            return labels
        return [f"{place.removeprefix('self.')}_{label}" for label in labels]

    def place(self, region: Region) -> str:
        return super().place(region) if self.makes_network else function(region.name)


class Fits(Accumulating):
    """Writes `run` as a training by `paddle.Model`."""

    values: Turned

    def write_main(self) -> None:
        self.code(KEEPING)
        self.values.write_helpers()
        super().write_main()

    def write_training(self) -> None:
        code, case = self.code, self.case
        self.write_before()
        code("model = paddle.Model(network)")
        rate = case.procedure.learning_rate
        code(f"optimizer = SGD(learning_rate={rate}, parameters=network.parameters())")
        code("seen, losses = [], []")
        code("# Before each step the outputs of the last one go; fit holds the batch.")
        with code.indent("def begin(layer, batch):"):
            code("del batch")
            code("seen.clear()", FORWARD)
        outputs = leaves(case.outputs)
        with code.indent("def loss_of(*outputs):"):
            code(f"loss = {self._loss_of(outputs)}")
            code("losses.append(loss.detach())")
            code("seen.extend(outputs)")
            code("return loss", BACKWARD)
        code("network.register_forward_pre_hook(begin)")
        code("model.prepare(optimizer, loss_of)")
        code(f"batch = [{', '.join(_value(value.name) for value in case.inputs) or 'np.zeros(1)'}]")
        code(f"model.fit([batch], epochs={case.procedure.steps}, verbose=0)")
        kept = {n: f"optimizer.gradients[{_value(n)}.name]" for n in case.wrt}
        gradients = (f'"{n}": {self.values.taken(n, gradient)}' for n, gradient in kept.items())
        put = "seen[0]" if isinstance(case.outputs, Ref) else f"tuple(seen[:{len(outputs)}])"
        self.write_trained(put, f"{{{', '.join(gradients)}}}")

    def _loss_of(self, outputs: Sequence[str]) -> str:
        loss = self.case.loss
        assert loss is not None
        place = f"outputs[{outputs.index(loss.name)}]"
        return place if loss.reduction == "none" else f"{place}.{loss.reduction}()"


def _unmarked(lines: Sequence[str]) -> list[str]:
    """Lines without what refers them to their sites."""
    return [MARK.sub("", line) for line in lines]


def _value(name: str) -> str:
    return f'values["{name}"]'
