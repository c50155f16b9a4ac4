"""How each operation is emitted for autograd: NumPy, and the functions that a program defines of it."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.emit import usual
from conformance.emit.emitter import RAISE_IF, Call, Writer

HELPERS: Mapping[str, str] = {
    "raise_if": RAISE_IF,
    # The derivative of `np.maximum(x, 0)` at 0 is 0.5.
    "relu": """
        def relu(x):
            return np.where(x > 0, x, 0)
        """,
    "gelu": """
        def gelu(x):
            return x * (1 + erf(x / 2**0.5)) / 2
        """,
    "softmax": """
        def softmax(x, axis):
            e = np.exp(x - np.max(x, axis=axis, keepdims=True))
            return e / np.sum(e, axis=axis, keepdims=True)
        """,
    "dropout": """
        def dropout(x, p, rng=np.random):
            keep = rng.uniform(size=x.shape) >= p
            return x * keep / (1 - p)
        """,
    # A convolution flips its kernel, so the kernel is flipped before.
    "conv2d": """
        def conv2d(x, w, stride=1, same=False):
            if same:
                over = [size - 1 for size in w.shape[2:]]
                x = np.pad(x, ((0, 0), (0, 0), *((n // 2, n - n // 2) for n in over)), mode="constant")
            turned = w[:, :, ::-1, ::-1]
            axes, channels = ([2, 3], [2, 3]), ([1], [1])
            y = convolve(x, turned, axes=axes, dot_axes=channels, mode="valid")
            return y[:, :, ::stride, ::stride]
        """,
    "max_pool2d": """
        def max_pool2d(x, size):
            n, c, h, w = (x.shape[0], x.shape[1], x.shape[2] // size, x.shape[3] // size)
            windows = x[:, :, : h * size, : w * size]
            return np.max(np.reshape(windows, (n, c, h, size, w, size)), axis=(3, 5))
        """,
    "avg_pool2d": """
        def avg_pool2d(x, size):
            n, c, h, w = (x.shape[0], x.shape[1], x.shape[2] // size, x.shape[3] // size)
            windows = x[:, :, : h * size, : w * size]
            return np.mean(np.reshape(windows, (n, c, h, size, w, size)), axis=(3, 5))
        """,
    # Running statistics are written to in place, and what is written has no gradient.
    "batch_norm": """
        def batch_norm(x, gamma, beta, running_mean, running_var, momentum, eps):
            mean, var = np.mean(x, axis=(0, 2, 3)), np.var(x, axis=(0, 2, 3))
            running_mean[...] = (1 - momentum) * running_mean + momentum * getval(mean)
            running_var[...] = (1 - momentum) * running_var + momentum * getval(var)
            mean, var = mean[:, None, None], var[:, None, None]
            gamma, beta = gamma[:, None, None], beta[:, None, None]
            return (x - mean) / np.sqrt(var + eps) * gamma + beta
        """,
    "layer_norm": """
        def layer_norm(x, gamma, beta, eps):
            mean = np.mean(x, axis=-1, keepdims=True)
            var = np.var(x, axis=-1, keepdims=True)
            return (x - mean) / np.sqrt(var + eps) * gamma + beta
        """,
    "broadcast_to": """
        def broadcast_to(x, shape):
            return x + np.zeros(shape, x.dtype)
        """,
    "rrelu": """
        def rrelu(x, low, high):
            slope = np.random.uniform(low, high, x.shape).astype(x.dtype)
            return np.where(x >= 0, x, x * slope)
        """,
    "slope_of_sin": """
        def slope_of_sin(x):
            return grad(lambda x: np.sum(np.sin(x)))(x)
        """,
    "custom_sin": """
        @primitive
        def custom_sin(x):
            return np.sin(x)


        def custom_sin_vjp(ans, x):
            return lambda g: 2 * np.cos(x) * g


        defvjp(custom_sin, custom_sin_vjp)
        """,
    "accumulate_sin": """
        def accumulate_sin(x, total):
            total += getval(np.sum(x, axis=0))
            return np.sin(x)
        """,
}


def _axis(call: Call) -> str:
    words = [call.arguments["x"]]
    words += [] if call.options["axis"] is None else [f"axis={call.options['axis']}"]
    words += ["keepdims=True"] if call.options["keepdims"] else []
    return f"np.{call.op}({', '.join(words)})"


def _dropout(call: Call) -> str:
    seed = call.options["seed"]
    rng = "" if seed is None else f", np.random.default_rng({seed})"
    return f"dropout({call.arguments['x']}, {call.options['p']}{rng})"


def _uniform(call: Call) -> str:
    low, high, seed = (call.options.get(word) for word in ("low", "high", "seed"))
    rng = "np.random" if seed is None else f"np.random.default_rng({seed})"
    rng = call.arguments.get("generator", rng)
    return f"{rng}.uniform({low}, {high}, {call.options['shape']}).astype(np.float32)"


OPERATIONS: Mapping[str, Writer] = {
    **usual.OPERATORS,
    **usual.functions("np"),
    **usual.arrays("np"),
    **usual.calls(HELPERS),
    "custom_sin": "custom_sin({x})",  # the rule is given x, and reads nothing that is saved
    "solve": "np.linalg.solve({a}, {b})",
    "relu": "relu({x})",
    "sigmoid": "expit({x})",
    "max": _axis,
    "dropout": _dropout,
    "sum": _axis,
    "mean": _axis,
    "embedding": "{table}[getval({indices})]",  # integers made of what is traced are traced, too
    "slice": usual.sliced,
    "reshape": "np.reshape({x}, {shape})",
    "permute_dims": "np.transpose({x}, {axes})",
    "broadcast_to": "broadcast_to({x}, {shape})",
    "stop_gradient": "getval({x})",
    "uniform": _uniform,
    "uniform_from": _uniform,
    "numpy_uniform": _uniform,
    "python_uniform": "np.array(random.uniform({low}, {high}), dtype=np.float32)",
}
