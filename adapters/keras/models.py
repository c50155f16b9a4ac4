"""How `fit-…` writes a case: a model of Keras' own layers, compiled with SGD and trained by `fit`.

The layers of a region are constructed inside `keras.RematScope`, all others outside. What there is no
layer for is an operation of `keras.ops` in the graph of the model, to which the scope applies, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

from conformance.emit.code import FORWARD
from conformance.emit.emitter import Body, Call, Emitter, Forward, Run, Tensors
from conformance.emit.expressions import elements, short_exponents
from conformance.emit.layers import Layer
from conformance.errors import AdapterError
from conformance.model.case import (
    Again,
    Array,
    Node,
    Ref,
    Statement,
    flat,
    node_makes,
    walk,
)

#: The mode of the scope, by the word in the variant's name.
MODES: Mapping[str, str] = {
    "activations": "activations",
    "larger": "larger_than",
    "list": "list_of_layers",
}
#: A metric and an optimizer, at the end of the program.
KEPT = """
    # `fit` gives back neither the last output nor the last gradients: these keep them.
    class LastOutput(keras.metrics.Metric):
        def __init__(self, shape):
            super().__init__(name="output")
            self.last = self.add_variable(shape, "zeros")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.last.assign(y_pred)

        def result(self):
            return ops.convert_to_tensor(self.last)


    class SGD(keras.optimizers.SGD):
        def build(self, variables):
            super().build(variables)
            self.last = self.add_optimizer_variables(variables, "gradient")

        def update_step(self, gradient, variable, learning_rate):
            self.assign(self.last[self._get_variable_index(variable)], gradient)
            super().update_step(gradient, variable, learning_rate)
    """
#: Layers without weights: their names, and how they are constructed out of an operation's options.
WEIGHTLESS: Mapping[str, str] = {
    "relu": 'Activation("relu")',
    "gelu": 'Activation("gelu")',
    "tanh": 'Activation("tanh")',
    "sigmoid": 'Activation("sigmoid")',
    "dropout": "Dropout({p})",
    "max_pool2d": 'MaxPooling2D({size}, data_format="channels_first")',
    "avg_pool2d": 'AveragePooling2D({size}, data_format="channels_first")',
    "reshape": "Reshape({inner})",
}
#: Layers with weights; their attributes are in the order of `set_weights`.
LAYERS: Mapping[str, Layer] = {
    "linear": Layer("Dense", "x", {"w": "kernel", "b": "bias"}),
    "matmul": Layer("Dense", "a", {"b": "kernel"}),
    "conv2d": Layer("Conv2D", "x", {"w": "kernel"}),
    "batch_norm": Layer(
        "BatchNormalization",
        "x",
        {
            **{"gamma": "gamma", "beta": "beta"},
            **{"running_mean": "moving_mean", "running_var": "moving_variance"},
        },
    ),
    "layer_norm": Layer("LayerNormalization", "x", {"gamma": "gamma", "beta": "beta"}),
    "embedding": Layer("Embedding", "indices", {"table": "embeddings"}),
}
#: The permutations that make the case's `w` from a kernel.
AXES: Mapping[str, tuple[int, ...]] = {"linear": (1, 0), "conv2d": (3, 2, 0, 1)}


@dataclass(frozen=True)
class Weight:
    """A weight of the model: the array of the case that it starts from, its path in the model, and the
    permutation that makes the one from the other."""

    array: str
    path: str
    axes: tuple[int, ...]

    def given(self) -> str:
        """The weight's first value, made from the array."""
        return self._permuted(self.array, tuple(self.axes.index(n) for n in range(len(self.axes))))

    def taken(self, source: str) -> str:
        """What the dict `source` has at the weight's path, with the axes of the array."""
        return self._permuted(f'{source}["{self.path}"]', self.axes)

    def _permuted(self, array: str, axes: tuple[int, ...]) -> str:
        if not axes:
            return array
        return f"ops.transpose({array}{'' if axes == (1, 0) else f', {axes}'})"


class Fed(Tensors):
    """What layers and `fit` are given are NumPy's arrays."""

    def tensor(self, array: Array, source: str) -> str:
        made = elements(array, source)
        if array.fill.kind == "full":
            return f'{made.removesuffix(")")}, dtype="{array.dtype}")'
        return f"np.{array.dtype}({made})"


class Constructed(Body):
    """Statements that construct layers and call them."""

    def __init__(self, emitter: Emitter) -> None:
        super().__init__(emitter)
        #: The weights of each layer of the model that is being written, by the layer's name.
        self.weights: dict[str, list[Weight]] = {}

    def write_helpers(self) -> None:
        """Nothing: what is no operation of `keras.ops` is a layer."""

    def write_nodes(self, nodes: Iterable[Node], region: str) -> None:
        for node in flat(nodes):
            if isinstance(node, Statement):
                self.write_statement(node, region)
                continue
            if isinstance(node, Again):
                raise AdapterError(f"not written for {self.variant.id}: a further call of a region")
            mode = MODES.get(self.variant.name.split("-")[1], "full")
            head = f'with keras.RematScope(mode="{mode}"):'
            with self.code.indent(head) if self.path == "recomputed" else nullcontext():
                self.write_nodes(node.body, node.name)

    def expression(self, statement: Statement) -> str:
        """A layer, constructed and called; an operation of `keras.ops` where there is no layer."""
        call, layer = self.call_of(statement), LAYERS.get(statement.op)
        policy = [f'dtype="mixed_{self.case.autocast}"'] if self.case.autocast else []
        if layer is not None:
            given = self._weights_of(layer, call)
            self.weights[statement.label] = [
                Weight(
                    array.name,
                    f"{statement.label}/{layer.weights[argument]}",
                    AXES.get(statement.op, ()) if argument == "w" else (),
                )
                for argument, array in given.items()
            ]
            words = [*_words(call, given), *policy, f"name={statement.label!r}"]
            return f"keras.layers.{layer.name}({', '.join(words)})({call.arguments[layer.takes]})"
        if statement.op not in WEIGHTLESS:
            return super().expression(statement)
        inner = tuple(call.options.get("shape", (0,)))[1:]  # type: ignore[arg-type]
        constructed = WEIGHTLESS[statement.op].format(**call.options, inner=inner)
        if policy:
            constructed = f"{constructed.removesuffix(')')}, {policy[0]})"
        return f"keras.layers.{constructed}({call.arguments['x']})"

    def _weights_of(self, layer: Layer, call: Call) -> dict[str, Array]:
        """The arrays that a statement reads as weights of a layer, by argument."""
        arrays = {array.name: array for array in (*self.case.parameters, *self.case.state)}
        names = {argument: call.arguments[argument] for argument in layer.weights}
        for name in names.values():
            if name not in arrays:
                raise AdapterError(f"{self.variant.id}: {name} is no weight of a layer")
        return {argument: arrays[name] for argument, name in names.items()}


class Models(Forward):
    """Writes `plain` and `recomputed` as functions that make a model."""

    body: Constructed

    def write_forward(self, path: str) -> None:
        code, case = self.code, self.case
        weights = self.body.weights = {}
        (given,) = case.inputs
        assert isinstance(given, Array)
        assert isinstance(case.outputs, Ref)
        with code.indent(f"def {path}({', '.join(case.names())}):"):
            dtype = "" if given.dtype == "float32" else f', dtype="{given.dtype}"'
            # A model is made of its input and its output: the input keeps a name of its own.
            made = {name for node in walk(case.program) for name in node_makes(node)}
            start = f"start = {given.name}" if given.name in made else given.name
            code(f"{start} = keras.Input({given.name}.shape[1:]{dtype})")
            self.body.write_nodes(case.program, "")
            code(f"model = keras.Model({start.split()[0]}, {case.outputs.name})")
            for layer, listed in weights.items():
                values = ", ".join(weight.given() for weight in listed)
                code(f'model.get_layer("{layer}").set_weights([{values}])')
            code("return model")
        if case.autocast:
            self.code.wrote("autocast")


class Fitted(Run):
    """Writes `run` as the training of a model."""

    body: Constructed

    def write_main(self) -> None:
        self.code(KEPT)
        super().write_main()

    def write_training(self) -> None:
        code, case = self.code, self.case
        assert case.loss is not None
        (given,) = case.inputs
        place = f'values["{given.name}"]'
        code("model = forward(**values)")
        code(f"output = LastOutput((len({place}), *model.output_shape[1:]))")
        code(f"optimizer = SGD(learning_rate={case.procedure.learning_rate})")
        with code.indent("def loss(y_true, y_pred):"):
            code(f"return ops.{case.loss.reduction}(y_pred)")
        code("model.compile(optimizer=optimizer, loss=loss, metrics=[output])")
        words = [
            *(place, f"np.zeros(len({place}))", f"batch_size=len({place})"),
            *(f"epochs={case.procedure.steps}", "shuffle=False", "verbose=0"),
        ]
        code(f"history = model.fit({', '.join(words)})", FORWARD)
        code("weights = {weight.path: weight for weight in model.weights}")
        code(
            "gradients = {weight.path: gradient"
            " for weight, gradient in zip(model.trainable_weights, optimizer.last)}"
        )
        results = [
            '"outputs": output.last',
            '"losses": history.history["loss"]',
            f'"gradients": {self._taken("gradients", case.wrt)}',
            f'"parameters": {self._taken("weights", [p.name for p in case.parameters])}',
        ]
        self.code.wrote("state")
        if case.state:
            results.append(f'"state": {self._taken("weights", [a.name for a in case.state])}')
        code(f"return {{{', '.join(results)}}}")

    def _taken(self, source: str, names: Iterable[str]) -> str:
        """A dict of what `source` has of the weights that start from arrays of these names."""
        places = {weight.array: weight for layer in self.body.weights.values() for weight in layer}
        return "{" + ", ".join(f'"{name}": {places[name].taken(source)}' for name in names) + "}"


def _words(call: Call, given: Mapping[str, Array]) -> list[str]:
    """The arguments with which the layer of a statement is constructed, given its weights."""
    options = call.options
    if call.op == "linear":
        return [str(given["w"].shape[0])]
    if call.op == "matmul":
        return [str(given["b"].shape[1]), "use_bias=False"]
    if call.op == "embedding":
        return [str(length) for length in given["table"].shape]
    if call.op == "conv2d":
        filters, _, *size = given["w"].shape
        words = [str(filters), str(size[0]) if len(set(size)) == 1 else str(tuple(size))]
        words += [f"strides={options['stride']}"] if options["stride"] != 1 else []
        words += ['padding="same"'] if options["padding"] == "same" else []
        return [*words, "use_bias=False", 'data_format="channels_first"']
    epsilon = f"epsilon={short_exponents(repr(options['eps']))}"
    if call.op == "layer_norm":
        return [epsilon]
    return ["axis=1", f"momentum={1 - float(options['momentum']):g}", epsilon]  # type: ignore[arg-type]
