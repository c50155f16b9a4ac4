"""How `…-layers` and `model-train…` write a case: cells of MindSpore's own layers.

A statement becomes a call of a layer of `mindspore.nn` where there is one and its weights are
parameters of the case. A region that holds nothing else is that layer itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from conformance.emit.code import BACKWARD, FORWARD
from conformance.emit.emitter import Emitter as Base
from conformance.emit.expressions import function
from conformance.emit.layers import Layer, attributes, taken
from conformance.errors import AdapterError
from conformance.model.case import (
    Again,
    Case,
    Node,
    Ref,
    Region,
    Statement,
    Tree,
    flat,
    leaves,
    walk,
)
from conformance.model.program import Site

#: Layers without weights, constructed out of an operation's options.
WEIGHTLESS: Mapping[str, str] = {
    "relu": "ReLU()",
    "tanh": "Tanh()",
    "sigmoid": "Sigmoid()",
    "dropout": "Dropout(p={p})",
    "softmax": "Softmax({axis})",
    "max_pool2d": "MaxPool2d({size}, {size})",
}


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


class Layers(Base):
    """Writes cells whose statements are calls of layers."""

    def __init__(self, case: Case, variant: Any) -> None:
        super().__init__(case, variant)
        self._taken = taken(walk(case.program))
        #: For each statement that a layer does, the layer's attribute.
        self._layers = attributes(s for _, s in case.statements() if self.is_layer(s))

    def is_layer(self, statement: Statement) -> bool:
        """Whether a statement can be written as a layer that owns the parameters it reads."""
        call = self.call_of(statement)
        if statement.op in WEIGHTLESS:
            return call.options.get("seed") is None and isinstance(statement.arguments[0], Ref)
        layer = LAYERS.get(statement.op)
        if layer is None:
            return False
        weights = self._weights_of(statement).values()
        arrays = {array.name for array in (*self.case.parameters, *self.case.state)}
        return all(name in arrays and name not in self._taken for name in weights)

    def _weights_of(self, statement: Statement) -> dict[str, str]:
        """The names that a layer with weights is made of, by the layer's attribute."""
        layer, given = LAYERS[statement.op], self.call_of(statement).arguments
        return {w: given[a].removeprefix("self.") for a, w in layer.weights.items()}

    def alone(self, region: Region) -> Statement | None:
        """A region's only statement, if a layer does it; else `None`."""
        (first, *rest) = flat(region.body)
        if rest or not isinstance(first, Statement) or id(first) not in self._layers:
            return None
        layer = LAYERS.get(first.op)
        given = self.call_of(first).arguments[layer.takes if layer else "x"]
        single = region.takes == (Ref(given.removeprefix("self.")),) and not region.kwargs
        whole = region.gives == Ref(first.label) and not region.mapped
        return first if single and whole and region.block != "invalid" else None

    # -- layers --------------------------------------------------------------------------------

    def constructed(self, statement: Statement) -> str:
        """The construction of the layer that does a statement."""
        call = self.call_of(statement)
        if statement.op in WEIGHTLESS:
            return f"nn.{WEIGHTLESS[statement.op].format(**call.options)}"
        arrays = {array.name: array for array in (*self.case.parameters, *self.case.state)}
        shape = arrays[next(iter(self._weights_of(statement).values()))].shape
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
            words = [str(shape[0]), f"momentum={round(1 - momentum, 12)}"]
            words.append(f"eps={call.options['eps']}")
        else:
            words = [str(shape), f"epsilon={call.options['eps']}"]
        return f"nn.{LAYERS[statement.op].name}({', '.join(words)})"

    def _write_weights(self, place: str, statement: Statement) -> None:
        if statement.op in LAYERS:
            for weight, name in self._weights_of(statement).items():
                self.code(f"{place}.{weight} = {name}")

    def write_own(self, nodes: Sequence[Node], region: Region | None) -> None:
        super().write_own(nodes, region)  # type: ignore[misc]
        for node in flat(nodes):
            if isinstance(node, Statement) and id(node) in self._layers:
                place = f"self.{self._layers[id(node)]}"
                self.code(f"{place} = {self.constructed(node)}")
                self._write_weights(place, node)

    def expression(self, statement: Statement) -> str:
        own = self._layers.get(id(statement))
        if own is None:
            return super().expression(statement)
        layer = LAYERS.get(statement.op)
        given = self.call_of(statement).arguments[layer.takes if layer else "x"]
        return f"self.{own}({given})"

    def _reads(self, nodes: Iterable[Node], gives: Tree, region: Region | None) -> set[str]:
        """The names that a cell's own lines read, without weights, which the layers own."""
        listed = tuple(nodes)
        found: set[str] = super()._reads(listed, gives, region)  # type: ignore[misc]
        own = [n for n in flat(listed) if isinstance(n, Statement)]
        weights = {
            name
            for n in own
            if id(n) in self._layers and n.op in LAYERS
            for name in self._weights_of(n).values()
        }
        others = {name for n in own if id(n) not in self._layers for name in n.names()}
        return found - (weights - others)

    # -- regions that are a layer --------------------------------------------------------------

    def is_primitive(self, region: Region) -> bool:
        """Whether a region is an operation that is configured by itself: in graph mode one without
        weights, `Primitive.recompute()`."""
        statement = self.alone(region)
        return bool(self.graph and statement and statement.op in WEIGHTLESS)  # type: ignore[attr-defined]

    def _write_block(self, region: Region) -> None:
        if self.alone(region) is None:
            super()._write_block(region)  # type: ignore[misc]

    def _write_attribute(self, region: Region, siblings: Any) -> None:
        statement = self.alone(region)
        if statement is None:
            super()._write_attribute(region, siblings)  # type: ignore[misc]
            return
        place = f"self.{function(region.name)}"
        label, op = ("", "") if self.graph else (statement.label, statement.op)  # type: ignore[attr-defined]
        site = Site("layer", self.path, region.name, label, op)
        if self.is_primitive(region):
            made = f"ops.{self._primitive(statement)}"  # type: ignore[attr-defined]
        else:
            made = self.constructed(statement)
        self.code(f"{place} = {made}", site)
        self._write_weights(place, statement)

    def write_call(self, node: Region | Again, call: str, region: Region) -> None:
        statement = self.alone(region)
        if statement is None or not self.graph:  # type: ignore[attr-defined]
            super().write_call(node, call, region)
            return
        site = Site("statement", self.path, region.name, statement.label, statement.op)
        called = self.called(node, "", region)
        self.code(f"{leaves(node.gives)[0]} = {called}", site)


#: What a step gives is at hand when it has ended.
KEPT = """
    class Kept(ms.Callback):
        def __init__(self):
            super().__init__()
            self.losses = []

        def on_train_step_end(self, run_context):
            loss, self.gradients = run_context.original_args().net_outputs
            self.losses.append(loss)
    """


class Trains(Layers):
    """Writes `run` as a training by `mindspore.Model`, of a network that ends in the loss.

    What the network gives is kept beside the loss: in graph mode in a parameter, since a step is a
    compiled graph, which hands Python no tensor that lies inside it.
    """

    procedures_written: Collection[str] = ("train",)

    def is_primitive(self, region: Region) -> bool:
        """No region is: all of them are `Cell.recompute()`."""
        return False

    def _write_loss(self) -> None:
        code, case, loss = self.code, self.case, self.case.loss
        assert loss is not None
        code(f"weights = {self.items(p.name for p in case.parameters if p.gradient)}")
        code()
        given = ", ".join(value.name for value in case.inputs)
        with code.indent("class Loss(nn.Cell):"):
            with code.indent("def __init__(self):"):
                code("super().__init__(auto_prefix=False)")
                code("self.network = network")
                if self.graph:  # type: ignore[attr-defined]
                    zeros = self._zeros()
                    code(f'self.outputs = Parameter({zeros}, name="outputs", requires_grad=False)')
            code()
            with code.indent(f"def construct({', '.join(filter(None, ['self', given]))}):"):
                if self.graph:  # type: ignore[attr-defined]
                    code(f"outputs = self.network({given})")
                    code("ops.assign(self.outputs, outputs)")
                else:
                    code(f"self.outputs = outputs = self.network({given})", FORWARD)
                place = self.loss_place()
                value = place if loss.reduction == "none" else f"ops.{loss.reduction}({place})"
                code(f"return {value}", None if self.graph else BACKWARD)  # type: ignore[attr-defined]
        code()
        code(KEPT)
        code()

    def _zeros(self) -> str:
        """Zeros of the shape and dtype of what the network gives, which is one tensor."""
        # Only here: writing other programs does without the oracle.
        from conformance.oracle.interpreter import Interpreter, make_inputs
        from conformance.oracle.tape import Tensor, quiet

        with quiet():
            found, _ = Interpreter(self.case, None).forward(make_inputs(self.case))
        if not isinstance(found, Tensor):
            raise AdapterError(f"{self.variant.id} trains networks that give one tensor")
        return f"ops.zeros({found.shape}, ms.{found.dtype})"

    def _write_gradients(self) -> None:
        code, case = self.code, self.case
        code("loss, kept = Loss(), Kept()")
        code(f"optimizer = nn.SGD(weights, learning_rate={case.procedure.learning_rate})")
        code("# the step that Model makes itself, which would give the loss alone")
        code("step = nn.TrainOneStepCell(loss, optimizer, sens=1.0, return_grad=True)")
        columns = (f'"{value.name}": values["{value.name}"].asnumpy()' for value in case.inputs)
        code(f"columns = {{{', '.join(columns)}}}")
        first = case.inputs[0].name
        code("data = ms.dataset.NumpySlicesDataset(columns, shuffle=False)")
        code(f'data = data.batch(len(columns["{first}"]))')
        train = f"train({case.procedure.steps}, data, callbacks=kept, dataset_sink_mode=False)"
        code(f"ms.Model(step).{train}", FORWARD if self.graph else None)  # type: ignore[attr-defined]
        code("gradients = list(kept.gradients.values())")
        trained = [p.name for p in case.parameters if p.gradient]
        found = ", ".join(f'"{name}": gradients[{trained.index(name)}]' for name in case.wrt)
        results = [
            *('"outputs": loss.outputs', '"losses": kept.losses', f'"gradients": {{{found}}}'),
            f'"parameters": {self.chosen(case.parameters)}',
        ]
        code(f"return {{{', '.join(results)}{self.state_entry()}}}")
