"""How each operation is emitted for MLX: expressions, and functions that a program defines for them."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.emit import usual
from conformance.emit.emitter import RAISE_IF, Call, Writer

HELPERS: Mapping[str, str] = {
    "raise_if": RAISE_IF,
    "dropout": """
        def dropout(x, p, key=None):
            keep = mx.random.bernoulli(1 - p, x.shape, key)
            return mx.where(keep, x / (1 - p), 0)
        """,
    "conv2d": """
        def conv2d(x, w, stride=1, same=False):
            # MLX has images and weights with the channels last.
            x, w = x.transpose(0, 2, 3, 1), w.transpose(0, 2, 3, 1)
            over = [size - 1 if same else 0 for size in w.shape[1:3]]
            padding = [n // 2 for n in over], [n - n // 2 for n in over]
            return mx.conv_general(x, w, stride, padding).transpose(0, 3, 1, 2)
        """,
    "max_pool2d": """
        def max_pool2d(x, size):
            return nn.MaxPool2d(size)(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        """,
    "avg_pool2d": """
        def avg_pool2d(x, size):
            return nn.AvgPool2d(size)(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        """,
    "batch_norm": """
        def batch_norm(x, gamma, beta, running_mean, running_var, momentum, eps):
            mean, var = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
            running_mean[:] = (1 - momentum) * running_mean + momentum * mean
            running_var[:] = (1 - momentum) * running_var + momentum * var
            mean, var = mean[:, None, None], var[:, None, None]
            gamma, beta = gamma[:, None, None], beta[:, None, None]
            return (x - mean) * mx.rsqrt(var + eps) * gamma + beta
        """,
    "rrelu": """
        def rrelu(x, low, high):
            slope = mx.random.uniform(low, high, x.shape, x.dtype)
            return mx.where(x >= 0, x, x * slope)
        """,
    "slope_of_sin": """
        def slope_of_sin(x):
            return mx.grad(lambda x: mx.sin(x).sum())(x)
        """,
    "custom_sin": """
        @mx.custom_function
        def custom_sin(x):
            return mx.sin(x)


        @custom_sin.vjp
        def custom_sin_vjp(x, cotangent, _):
            return 2 * mx.cos(x) * cotangent
        """,
    "accumulate_sin": """
        def accumulate_sin(x, total):
            total += mx.stop_gradient(x.sum(axis=0))
            return mx.sin(x)
        """,
    "add_in_place": """
        def add_in_place(a, b):
            a += b
            return a
        """,
}


def _dropout(call: Call) -> str:
    return f"dropout({call.arguments['x']}, {call.options['p']}{_key(call)})"


def _uniform(call: Call) -> str:
    low, high = call.options["low"], call.options["high"]
    return f"mx.random.uniform({low}, {high}, {call.options['shape']}{_key(call)})"


def _key(call: Call) -> str:
    if "generator" in call.arguments:
        return f", key={call.arguments['generator']}"
    seed = call.options.get("seed")
    return "" if seed is None else f", key=mx.random.key({seed})"


def _uniform_from(call: Call) -> str:
    if not call.of_numpy:
        return _uniform(call)
    low, high, shape = (call.options[word] for word in ("low", "high", "shape"))
    return f"mx.array({call.arguments['generator']}.uniform({low}, {high}, {shape}), mx.float32)"


OPERATIONS: Mapping[str, Writer] = {
    **usual.OPERATORS,
    **usual.functions("mx"),
    **usual.arrays("mx"),
    **usual.calls(HELPERS),
    "custom_sin": "custom_sin({x})",  # the rule is given x, and reads nothing that is saved
    "solve": "mx.linalg.solve({a}, {b}, stream=mx.cpu)",
    "layer_norm": "mx.fast.layer_norm({x}, {gamma}, {beta}, {eps})",
    "relu": "nn.relu({x})",
    "gelu": "nn.gelu({x})",
    "sigmoid": "mx.sigmoid({x})",
    "max": usual.reduced,
    "softmax": "mx.softmax({x}, axis={axis})",
    "dropout": _dropout,
    "sum": usual.reduced,
    "mean": usual.reduced,
    "slice": usual.sliced,
    "reshape": "{x}.reshape({shape})",
    "permute_dims": "{x}.transpose({axes})",
    "stop_gradient": "mx.stop_gradient({x})",
    "uniform": _uniform,
    "uniform_from": _uniform_from,
    "numpy_uniform": "mx.array(np.random.uniform({low}, {high}, {shape}), mx.float32)",
    "python_uniform": "mx.array(random.uniform({low}, {high}), mx.float32)",
}
