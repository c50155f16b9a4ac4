"""How each operation is emitted for Keras: expressions, and functions that a program defines."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.emit import usual
from conformance.emit.emitter import RAISE_IF, Call, Writer
from conformance.model.case import Literal

#: Functions that a program carries along where it uses the operation.
HELPERS: Mapping[str, str] = {
    "raise_if": RAISE_IF,
    "batch_norm": """
        def batch_norm(x, gamma, beta, running_mean, running_var, momentum, epsilon):
            mean, var = ops.moments(x, axes=[0, 2, 3])
            running_mean.assign((1 - momentum) * running_mean + momentum * mean)
            running_var.assign((1 - momentum) * running_var + momentum * var)
            return ops.batch_normalization(x, mean, var, 1, beta, gamma, epsilon)
        """,
    "branch_sin": """
        def branch_sin(x):
            return ops.cond(ops.sum(x) > 0, lambda: ops.sin(x), lambda: ops.cos(x))
        """,
    "loop_sin": """
        def loop_sin(x, times):
            return ops.fori_loop(0, times, lambda i, x: ops.sin(x), x)
        """,
    # The gradient is called with what backends call it with, as in the example of Keras' documentation.
    "custom_sin": """
        def custom_sin(x, reads):
            @ops.custom_gradient
            def sin(x):
                def gradient(*args, upstream=None):
                    if upstream is None:
                        (upstream,) = args
                    for _ in range(reads):
                        slope = ops.multiply(2.0, ops.cos(x))
                    return ops.multiply(slope, upstream)

                return ops.sin(x), gradient

            return sin(x)
        """,
    "accumulate_sin": """
        def accumulate_sin(x, total):
            total.assign_add(ops.sum(x, axis=0))
            return ops.sin(x)
        """,
}

#: `jax.custom_gradient` gives the function itself to derivatives of higher order, and not its rule: so
#: the function calls another one with the rule, once for each order.
CUSTOM_SIN_ORDERS = """
    def custom_sin(x, reads, order={order}):
        below = ops.sin if order == 1 else lambda x: custom_sin(x, reads, order - 1)

        @ops.custom_gradient
        def sin(x):
            def gradient(upstream):
                for _ in range(reads):
                    slope = ops.multiply(2.0, ops.cos(x))
                return ops.multiply(slope, upstream)

            return below(x), gradient

        return sin(x)
    """


def _conv2d(call: Call) -> str:
    x, w = call.arguments["x"], call.arguments["w"]
    stride = "" if call.options["stride"] == 1 else f", strides={call.options['stride']}"
    # A kernel of Keras is (height, width, in, out).
    kernel = f"ops.transpose({w}, (2, 3, 1, 0))"
    padding = "" if call.options["padding"] == "valid" else ', padding="same"'
    return f'ops.conv({x}, {kernel}{stride}{padding}, data_format="channels_first")'


def _seed(call: Call) -> str:
    given = call.arguments.get("generator", call.options.get("seed"))
    return "" if given is None else f", seed={given}"


def _dropout(call: Call) -> str:
    return f"keras.random.dropout({call.arguments['x']}, {call.options['p']}{_seed(call)})"


def _uniform(call: Call) -> str:
    if call.of_numpy:
        return _numpy_uniform(call, call.arguments["generator"])
    return f"keras.random.uniform({call.options['shape']}{usual.bounds(call)}{_seed(call)})"


def _numpy_uniform(call: Call, source: str = "np.random") -> str:
    """A draw of NumPy's: `source` is its global generator or one of its own."""
    low, high, shape = (call.options[word] for word in ("low", "high", "shape"))
    return f'ops.convert_to_tensor({source}.uniform({low}, {high}, {shape}), "float32")'


def tf_add(call: Call) -> str:
    """TensorFlow takes the dtype of the first argument for both, so a number is the second one."""
    a, b = call.arguments["a"], call.arguments["b"]
    number = any(isinstance(argument, Literal) for argument in call.statement.arguments[:1])
    return f"tf.add({b}, {a})" if number else f"tf.add({a}, {b})"


_OF_TWO = ("add", "subtract", "multiply", "divide", "matmul", "solve")

OPERATIONS: Mapping[str, Writer] = {
    **usual.functions("ops"),
    **usual.reductions("ops."),
    **usual.calls(HELPERS),
    **{name: f"ops.{name}({{a}}, {{b}})" for name in _OF_TWO},
    **{name: f"ops.{name}({{x}})" for name in ("negative", "real", "imag", "relu", "sigmoid")},
    "raise_if": "raise_if({x}, {flag})",
    "linear": "ops.add(ops.matmul({x}, ops.transpose({w})), {b})",
    "conv2d": _conv2d,
    "max_pool2d": 'ops.max_pool({x}, {size}, {size}, data_format="channels_first")',
    "avg_pool2d": 'ops.average_pool({x}, {size}, {size}, data_format="channels_first")',
    "batch_norm": "batch_norm({x}, {gamma}, {beta}, {running_mean}, {running_var}, "
    "momentum={momentum}, epsilon={eps})",
    "layer_norm": "ops.layer_normalization({x}, {gamma}, {beta}, epsilon={eps})",
    "embedding": "ops.take({table}, {indices}, axis=0)",
    "gelu": "ops.gelu({x}, approximate=False)",
    "softmax": "ops.softmax({x}, axis={axis})",
    "dropout": _dropout,
    "reshape": "ops.reshape({x}, {shape})",
    "permute_dims": "ops.transpose({x}, {axes})",
    "concat": "ops.concatenate({arrays}, axis={axis})",
    "slice": usual.sliced,
    "split": "ops.split({x}, {sections}, axis={axis})",
    "to_complex": "ops.view_as_complex(ops.stack([{a}, {b}], axis=-1))",
    "astype": 'ops.cast({x}, "{dtype}")',
    "to_default": "ops.cast({x}, keras.config.floatx())",
    "stop_gradient": "ops.stop_gradient({x})",
    "uniform": _uniform,
    "uniform_from": _uniform,
    "numpy_uniform": _numpy_uniform,
    "python_uniform": 'ops.convert_to_tensor(random.uniform({low}, {high}), "float32")',
}
