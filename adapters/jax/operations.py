"""How JAX spells each operation: expressions, and the functions that a program defines for them."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.emit import Call, Spelling, Writer

HELPERS: Mapping[str, str] = {
    **Spelling.helpers,
    "dropout": """
        def dropout(key, x, p):
            keep = jax.random.bernoulli(key, 1 - p, x.shape)
            return jnp.where(keep, x / (1 - p), 0)
        """,
    "layer_norm": """
        def layer_norm(x, gamma, beta, eps):
            mean = x.mean(axis=-1, keepdims=True)
            var = x.var(axis=-1, keepdims=True)
            return (x - mean) * lax.rsqrt(var + eps) * gamma + beta
        """,
    "batch_norm": """
        def batch_norm(x, gamma, beta, running_mean, running_var, momentum, eps):
            mean, var = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
            running_mean = (1 - momentum) * running_mean + momentum * mean
            running_var = (1 - momentum) * running_var + momentum * var
            mean, var, gamma, beta = (
                part[:, None, None] for part in (mean, var, gamma, beta)
            )
            y = (x - mean) * lax.rsqrt(var + eps) * gamma + beta
            return y, running_mean, running_var
        """,
    "max_pool2d": """
        def max_pool2d(x, size):
            window = (1, 1, size, size)
            return lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")
        """,
    "avg_pool2d": """
        def avg_pool2d(x, size):
            window = (1, 1, size, size)
            total = lax.reduce_window(x, 0.0, lax.add, window, window, "VALID")
            return total / size**2
        """,
}


def _axis(call: Call) -> str:
    axis, keepdims = call.options["axis"], call.options["keepdims"]
    words = [] if axis is None else [f"axis={axis}"]
    words += ["keepdims=True"] if keepdims else []
    return f"{call.arguments['x']}.{call.op}({', '.join(words)})"


def _conv2d(call: Call) -> str:
    stride, padding = call.options["stride"], str(call.options["padding"]).upper()
    x, w = call.arguments["x"], call.arguments["w"]
    return f'lax.conv_general_dilated({x}, {w}, ({stride}, {stride}), "{padding}")'


def _uniform_from(call: Call) -> str:
    if "numbers" in call.arguments:
        return f"jnp.asarray({call.arguments['numbers']}, jnp.float32)"
    return _uniform(
        Call(call.op, {"key": call.arguments["generator"]}, call.options, call.statement)
    )


def _uniform(call: Call) -> str:
    low, high = call.options["low"], call.options["high"]
    words = [call.arguments["key"], str(call.options["shape"]), "jnp.float32"]
    if (low, high) != (0, 1):
        words += [f"minval={low}", f"maxval={high}"]
    return f"jax.random.uniform({', '.join(words)})"


OPERATIONS: Mapping[str, Writer] = {
    "add": "{a} + {b}",
    "subtract": "{a} - {b}",
    "multiply": "{a} * {b}",
    "divide": "{a} / {b}",
    "negative": "-{x}",
    "matmul": "{a} @ {b}",
    "linear": "{x} @ {w}.T + {b}",
    "conv2d": _conv2d,
    "max_pool2d": "max_pool2d({x}, {size})",
    "avg_pool2d": "avg_pool2d({x}, {size})",
    "batch_norm": "batch_norm({x}, {gamma}, {beta}, {running_mean}, {running_var}, "
    "momentum={momentum}, eps={eps})",
    "layer_norm": "layer_norm({x}, {gamma}, {beta}, eps={eps})",
    "embedding": "{table}[{indices}]",
    "relu": "jax.nn.relu({x})",
    "gelu": "jax.nn.gelu({x}, approximate=False)",
    "tanh": "jnp.tanh({x})",
    "sigmoid": "jax.nn.sigmoid({x})",
    "sin": "jnp.sin({x})",
    "cos": "jnp.cos({x})",
    "exp": "jnp.exp({x})",
    "log": "jnp.log({x})",
    "softmax": "jax.nn.softmax({x}, axis={axis})",
    "dropout": "dropout({key}, {x}, p={p})",
    "sum": _axis,
    "mean": _axis,
    "reshape": "{x}.reshape({shape})",
    "permute_dims": "{x}.transpose({axes})",
    "concat": "jnp.concat({arrays}, axis={axis})",
    "split": "jnp.split({x}, {sections}, axis={axis})",
    "astype": "{x}.astype(jnp.{dtype})",
    "stop_gradient": "lax.stop_gradient({x})",
    "uniform": _uniform,
    "uniform_from": _uniform_from,
    "numpy_uniform": "jnp.asarray(np.random.uniform({low}, {high}, {shape}), jnp.float32)",
    "python_uniform": "jnp.asarray(random.uniform({low}, {high}), jnp.float32)",
    "raise_if": "raise_if({x}, {flag})",
}
