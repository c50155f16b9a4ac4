"""How TensorFlow writes the operations of a case."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.emit import usual
from conformance.emit.emitter import RAISE_IF, Call, Writer

from . import ranks

#: Functions that a program carries along where it uses the operation: images are NCHW in a case,
#: and TensorFlow computes on them in NHWC on the CPU.
HELPERS: Mapping[str, str] = {
    "raise_if": RAISE_IF,
    **ranks.HELPERS,
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
    "branch_sin": """
        def branch_sin(x):
            positive = tf.reduce_sum(x) > 0
            return tf.cond(positive, lambda: tf.sin(x), lambda: tf.cos(x))
        """,
    "loop_sin": """
        def loop_sin(x, times):
            # A compiled function can differentiate a loop whose length it is told.
            _, x = tf.while_loop(
                lambda i, x: i < times,
                lambda i, x: (i + 1, tf.sin(x)),
                (0, x),
                maximum_iterations=times,
            )
            return x
        """,
    "custom_sin": """
        def custom_sin(x, reads):
            @tf.custom_gradient
            def sin(x):
                def gradient(g):
                    for _ in range(reads):
                        slope = 2 * tf.cos(x)
                    return slope * g

                return tf.sin(x), gradient

            return sin(tf.convert_to_tensor(x))
        """,
    "slope_of_sin": """
        def slope_of_sin(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                total = tf.reduce_sum(tf.sin(x))
            return tape.gradient(total, x)
        """,
    "accumulate_sin": """
        def accumulate_sin(x, total):
            total.assign_add(tf.reduce_sum(x, axis=0))
            return tf.sin(x)
        """,
}


def _conv2d(call: Call) -> str:
    stride, padding = call.options["stride"], str(call.options["padding"]).upper()
    return f'conv2d({call.arguments["x"]}, {call.arguments["w"]}, {stride}, "{padding}")'


def _dropout(call: Call) -> str:
    return f"tf.nn.dropout({call.arguments['x']}, rate={call.options['p']}{_seed(call)})"


def _seed(call: Call) -> str:
    return "" if call.options["seed"] is None else f", seed={call.options['seed']}"


def _uniform(call: Call) -> str:
    return f"tf.random.uniform({_shape(call)}{usual.bounds(call)}{_seed(call)})"


def _shape(call: Call) -> list[int]:
    return list(call.options["shape"])  # type: ignore[arg-type]


def _uniform_from(call: Call) -> str:
    draw = f"{call.arguments['generator']}.uniform"
    if call.of_numpy:
        return _numpy_uniform(call, draw)
    return f"{draw}({_shape(call)}{usual.bounds(call)})"


def _numpy_uniform(call: Call, draw: str = "np.random.uniform") -> str:
    low, high = call.options["low"], call.options["high"]
    return f"tf.constant({draw}({low}, {high}, {_shape(call)}), dtype=tf.float32)"


#: How TensorFlow writes each operation.
OPERATIONS: Mapping[str, Writer] = {
    **ranks.OPERATIONS,
    **usual.OPERATORS,
    **usual.functions("tf"),
    **usual.reductions("tf.reduce_"),
    **usual.calls(HELPERS),
    "solve": "tf.linalg.solve({a}, {b})",
    "linear": "tf.matmul({x}, {w}, transpose_b=True) + {b}",
    "conv2d": _conv2d,
    "embedding": "tf.gather({table}, {indices})",
    "relu": "tf.nn.relu({x})",
    "gelu": "tf.nn.gelu({x})",
    "sigmoid": "tf.sigmoid({x})",
    "log": "tf.math.log({x})",
    "softmax": "tf.nn.softmax({x}, axis={axis})",
    "dropout": _dropout,
    "slice": usual.sliced,
    "reshape": "tf.reshape({x}, {shape})",
    "permute_dims": "tf.transpose({x}, {axes})",
    "concat": "tf.concat({arrays}, axis={axis})",
    "split": "tf.split({x}, {sections}, axis={axis})",
    "to_complex": "tf.complex({a}, {b})",
    "real": "tf.math.real({x})",
    "imag": "tf.math.imag({x})",
    "astype": "tf.cast({x}, tf.{dtype})",
    "stop_gradient": "tf.stop_gradient({x})",
    "uniform": _uniform,
    "numpy_uniform": _numpy_uniform,
    "uniform_from": _uniform_from,
    "python_uniform": "tf.constant(random.uniform({low}, {high}))",
    "loop_sin": "loop_sin({x}, times={times})",
    "custom_sin": "custom_sin({x}, reads={reads})",
}
