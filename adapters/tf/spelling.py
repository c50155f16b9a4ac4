"""How TensorFlow writes a case: `tf.GradientTape`, and `tf.recompute_grad` around each region."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.case import Again, Array, Region, Statement, Value, leaves, walk
from conformance.emit import BACKWARD, FORWARD, Call, Writer, function
from conformance.emit import Spelling as Base
from conformance.program import Site

#: Functions that a program carries along where it uses the operation: images are NCHW in a case,
#: and TensorFlow computes on them in NHWC on the CPU.
HELPERS: Mapping[str, str] = {
    **Base.helpers,
    "conv2d": """
        def conv2d(x, w, strides, padding):
            # On the CPU, convolutions are computed in NHWC.
            x, w = tf.transpose(x, [0, 2, 3, 1]), tf.transpose(w, [2, 3, 1, 0])
            y = tf.nn.conv2d(x, w, strides=strides, padding=padding)
            return tf.transpose(y, [0, 3, 1, 2])
        """,
    "max_pool2d": """
        def max_pool2d(x, size):
            x = tf.transpose(x, [0, 2, 3, 1])
            y = tf.nn.max_pool2d(x, size, strides=size, padding="VALID")
            return tf.transpose(y, [0, 3, 1, 2])
        """,
    "avg_pool2d": """
        def avg_pool2d(x, size):
            x = tf.transpose(x, [0, 2, 3, 1])
            y = tf.nn.avg_pool2d(x, size, strides=size, padding="VALID")
            return tf.transpose(y, [0, 3, 1, 2])
        """,
    "batch_norm": """
        def batch_norm(x, gamma, beta, running_mean, running_var, momentum, eps):
            mean, var = tf.nn.moments(x, axes=[0, 2, 3])
            running_mean.assign((1 - momentum) * running_mean + momentum * mean)
            running_var.assign((1 - momentum) * running_var + momentum * var)
            mean, var, beta, gamma = (
                tf.reshape(value, [-1, 1, 1]) for value in (mean, var, beta, gamma)
            )
            return tf.nn.batch_normalization(x, mean, var, beta, gamma, eps)
        """,
    "layer_norm": """
        def layer_norm(x, gamma, beta, eps):
            mean, var = tf.nn.moments(x, axes=[-1], keepdims=True)
            return tf.nn.batch_normalization(x, mean, var, beta, gamma, eps)
        """,
}


def _reduced(call: Call) -> str:
    axis, keepdims = call.options["axis"], call.options["keepdims"]
    if axis is None and not keepdims:
        return f"tf.reduce_{call.op}({call.arguments['x']})"
    keep = ", keepdims=True" if keepdims else ""
    return f"tf.reduce_{call.op}({call.arguments['x']}, axis={axis}{keep})"


def _conv2d(call: Call) -> str:
    stride, padding = call.options["stride"], str(call.options["padding"]).upper()
    return f'conv2d({call.arguments["x"]}, {call.arguments["w"]}, {stride}, "{padding}")'


def _uniform(call: Call) -> str:
    low, high = call.options["low"], call.options["high"]
    shape = list(call.options["shape"])  # type: ignore[arg-type]
    bounds = "" if (low, high) == (0, 1) else f", minval={low}, maxval={high}"
    return f"tf.random.uniform({shape}{bounds})"


class Spelling(Base):
    """Writes one case for `eager` or `function`."""

    imports = ("import numpy as np", "import tensorflow as tf")
    helpers = HELPERS
    seeding = "tf.random.set_seed({seed})"
    operations: Mapping[str, Writer] = {
        "add": "{a} + {b}",
        "subtract": "{a} - {b}",
        "multiply": "{a} * {b}",
        "divide": "{a} / {b}",
        "negative": "-{x}",
        "matmul": "{a} @ {b}",
        "linear": "tf.matmul({x}, {w}, transpose_b=True) + {b}",
        "conv2d": _conv2d,
        "max_pool2d": "max_pool2d({x}, {size})",
        "avg_pool2d": "avg_pool2d({x}, {size})",
        "batch_norm": "batch_norm({x}, {gamma}, {beta}, {running_mean}, {running_var}, "
        "momentum={momentum}, eps={eps})",
        "layer_norm": "layer_norm({x}, {gamma}, {beta}, eps={eps})",
        "embedding": "tf.gather({table}, {indices})",
        "relu": "tf.nn.relu({x})",
        "gelu": "tf.nn.gelu({x})",
        "tanh": "tf.tanh({x})",
        "sigmoid": "tf.sigmoid({x})",
        "sin": "tf.sin({x})",
        "cos": "tf.cos({x})",
        "exp": "tf.exp({x})",
        "log": "tf.math.log({x})",
        "softmax": "tf.nn.softmax({x}, axis={axis})",
        "dropout": "tf.nn.dropout({x}, rate={p})",
        "sum": _reduced,
        "mean": _reduced,
        "reshape": "tf.reshape({x}, {shape})",
        "permute_dims": "tf.transpose({x}, {axes})",
        "concat": "tf.concat({arrays}, axis={axis})",
        "split": "tf.split({x}, {sections}, axis={axis})",
        "astype": "tf.cast({x}, tf.{dtype})",
        "stop_gradient": "tf.stop_gradient({x})",
        "uniform": _uniform,
        "raise_if": "raise_if({x}, {flag})",
    }

    def expression(self, statement: Statement) -> str:
        if statement.op != "is_unwrapped_by":
            return super().expression(statement)
        region = function(statement.names()[0])
        return "True" if self.path == "plain" else f"recomputed_{region}.__wrapped__ is {region}"

    # -- inputs --------------------------------------------------------------------------------

    def tensor(self, array: Array, source: str) -> str:
        if array in self.case.inputs:
            return f"tf.constant({source}, dtype=tf.{array.dtype})"
        trainable = "" if array.gradient else ", trainable=False"
        return f"tf.Variable({source}, dtype=tf.{array.dtype}{trainable})"

    # -- regions -------------------------------------------------------------------------------

    def write_region(self, region: Region) -> None:
        name = function(region.name)
        if region.granularity == "module":
            self._write_module(region)
        else:
            super().write_region(region)
        if self.path == "recomputed":
            block = "None" if region.block == "invalid" else name
            self.code(f"recomputed_{name} = tf.recompute_grad({block})")

    def recompute(self, region: Region) -> str:
        return f"recomputed_{function(region.name)}"

    def _write_module(self, region: Region) -> None:
        """A `tf.Module` that owns the variables its body reads, made once."""
        code, name = self.code, function(region.name)
        variables = {array.name for array in (*self.case.parameters, *self.case.state)}
        owned = [n for n in region.captured() if n in variables]
        kind = "".join(word.capitalize() for word in name.split("_"))
        site = Site("region", self.path, region.name, region.name)
        with code.indent(f"class {kind}(tf.Module):"):
            with code.indent(f"def __init__({', '.join(['self', *owned])}):"):
                code("super().__init__()")
                for variable in owned:
                    code(f"self.{variable} = {variable}")
            code()
            parameters = ", ".join(filter(None, ["self", self.parameters(region)]))
            with code.indent(f"def __call__({parameters}):", site):
                self.write_unpacking(region)
                outer, self._owned = self._owned, frozenset(owned)
                self.write_nodes(region.body, region.name)
                code(f"return {self.tree(region.gives)}")
                self._owned = outer
        code()
        code(f"{name} = {kind}({', '.join(owned)})")

    _owned: frozenset[str] = frozenset()

    def name(self, name: str) -> str:
        return f"self.{name}" if name in self._owned else name

    # -- run -----------------------------------------------------------------------------------

    def write_training(self) -> None:
        self.write_gradients()

    def write_gradients(self) -> None:
        if self.variant.name == "function":
            self._write_function()
        else:
            self._write_eager()

    def write_inference(self) -> None:
        if self.variant.name != "function":
            super().write_inference()
            return
        code = self.code
        code()
        with code.indent("@tf.function(autograph=False)\ndef step(values):"):
            code("outputs = forward(**values)", FORWARD)
            code("return outputs")
        code()
        code("outputs = step(values)")
        code('return {"outputs": outputs}')

    def _write_eager(self) -> None:
        code, case = self.code, self.case
        if case.procedure.kind == "train":
            code("losses = []")
            with code.indent(f"for _ in range({case.procedure.steps}):"):
                self._write_gradients()
                self._write_update()
                code("losses.append(loss)")
        else:
            self._write_gradients()
        self._write_return()

    def _write_function(self) -> None:
        code, case, kind = self.code, self.case, self.case.procedure.kind
        second = kind == "second_backward"
        results = ["outputs", "loss", "gradients"]
        results += ["again"] if kind in ("second_backward", "second_order") else []
        code()
        code("# Cotangents are data: the graph optimizer cannot see through a product with them.")
        head = "cotangent, cotangent2" if second else "cotangent"
        with code.indent(f"@tf.function(autograph=False)\ndef step(values, {head}):"):
            self._write_gradients()
            code(f"return {', '.join(results)}")
        code()
        dtype = self._loss_dtype()
        one = "tf.constant(1.0)" if dtype == "float32" else f"tf.constant(1.0, dtype=tf.{dtype})"
        ones = ", ".join([one] * (2 if second else 1))
        call = f"{', '.join(results)} = step(values, {ones})"
        if kind == "train":
            code("losses = []")
            with code.indent(f"for _ in range({case.procedure.steps}):"):
                code(call)
                # Not inside the function: there TensorFlow 2.21's dependency optimizer drops the
                # order between a rerun's reads of a variable and its update, and every fourth run
                # of some programs computes with parameters that are new already.
                self._write_update()
                code("losses.append(loss)")
        else:
            code(call)
        self._write_return()

    def _loss_dtype(self) -> str:
        """The dtype of the loss, by following dtypes through the program."""
        known = {array.name: array.dtype for array in self.case.arrays}
        for node in walk(self.case.program):
            if isinstance(node, Statement):
                dtypes = [known[name] for name in node.names() if name in known]
                made = str(node.options["dtype"]) if node.op == "astype" else None
                floats = [dtype for dtype in dtypes if "float" in dtype]
                known |= dict.fromkeys(node.targets, made or (floats or dtypes or ["float32"])[0])
            elif isinstance(node, Again):
                first = leaves(self.region_named(node.region).gives)
                known |= {n: known[f] for n, f in zip(leaves(node.gives), first, strict=True)}
        assert self.case.loss is not None
        return known[self.case.loss.name]

    def _write_gradients(self) -> None:
        """Forward, loss, and the gradients of the procedure."""
        code, kind = self.code, self.case.procedure.kind
        cotangent = ", output_gradients=cotangent" if self.variant.name == "function" else ""
        sources = ", ".join(f'"{n}": values["{n}"]' for n in self._sources())
        code(f"sources = {{{sources}}}")
        if kind == "second_order":
            with code.indent("with tf.GradientTape() as outer:"):
                self._write_watch("outer")
                self._write_taped("tf.GradientTape()")
                code(f"gradients = tape.gradient(loss, sources{cotangent})", BACKWARD)
                code("total = tf.add_n([tf.reduce_sum(g) for g in gradients.values()])")
            code("again = outer.gradient(total, sources)")
        elif kind == "second_backward":
            self._write_taped("tf.GradientTape(persistent=True)")
            code(f"gradients = tape.gradient(loss, sources{cotangent})", BACKWARD)
            again = cotangent.replace("=cotangent", "=cotangent2")
            code(f"again = tape.gradient(loss, sources{again})", BACKWARD)
        else:
            self._write_taped("tf.GradientTape()")
            code(f"gradients = tape.gradient(loss, sources{cotangent})", BACKWARD)

    def _write_taped(self, tape: str) -> None:
        with self.code.indent(f"with {tape} as tape:"):
            self._write_watch("tape")
            self.code("outputs = forward(**values)", FORWARD)
            self.code(f"loss = {self._loss()}")

    def _write_watch(self, tape: str) -> None:
        """Variables are watched by themselves, tensors are not."""
        inputs = [v for v in self.case.inputs if not isinstance(v, Value) and v.gradient]
        watched = ", ".join(f'values["{v.name}"]' for v in inputs)
        if len(inputs) == 1:
            self.code(f"{tape}.watch({watched})")
        elif inputs:
            self.code(f"{tape}.watch([{watched}])")

    def _loss(self) -> str:
        loss, place = self.case.loss, self.loss_place()
        assert loss is not None
        return place if loss.reduction == "none" else f"tf.reduce_{loss.reduction}({place})"

    def _trained(self) -> list[str]:
        return [p.name for p in self.case.parameters if p.gradient]

    def _sources(self) -> list[str]:
        """What gradients are taken of: those asked for, and in training every parameter."""
        training = self.case.procedure.kind == "train"
        return list(dict.fromkeys([*self.case.wrt, *(self._trained() if training else [])]))

    def _write_update(self) -> None:
        rate = self.case.procedure.learning_rate
        names = ", ".join(f'"{name}"' for name in self._trained())
        # The gradient of a lookup comes as its rows alone.
        looked_up = any(s.op == "embedding" for _, s in self.case.statements())
        gradient = "tf.convert_to_tensor(gradients[name])" if looked_up else "gradients[name]"
        with self.code.indent(f"for name in ({names},):"):
            self.code(f"values[name].assign_sub({rate} * {gradient})")

    def _write_return(self) -> None:
        case, kind = self.case, self.case.procedure.kind
        gradients = "gradients"
        if self._sources() != list(case.wrt):
            gradients = "{" + ", ".join(f'"{n}": gradients["{n}"]' for n in case.wrt) + "}"
        losses = "losses" if kind == "train" else "[loss]"
        results = ['"outputs": outputs', f'"losses": {losses}', f'"gradients": {gradients}']
        if kind in ("second_backward", "second_order"):
            results.append('"again": again')
        if kind == "train":
            results.append(f'"parameters": {self.chosen(case.parameters)}')
        if case.state:
            results.append(f'"state": {self.chosen(case.state)}')
        self.code(f"return {{{', '.join(results)}}}")
