"""How each operation is emitted for JAX: expressions, and functions that a program defines for them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import replace

from conformance.emit import usual
from conformance.emit.emitter import RAISE_IF, Call, Writer

from . import ranks

HELPERS: Mapping[str, str] = {
    "raise_if": RAISE_IF,
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
    "rrelu": """
        def rrelu(key, x, low, high):
            slope = jax.random.uniform(key, x.shape, x.dtype, low, high)
            return jnp.where(x >= 0, x, x * slope)
        """,
    "branch_sin": """
        def branch_sin(x):
            return lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x)
        """,
    "slope_of_sin": """
        def slope_of_sin(x):
            return jax.grad(lambda x: jnp.sin(x).sum())(x)
        """,
    "loop_sin": """
        def loop_sin(x, times):
            last, _ = lax.scan(lambda x, _: (jnp.sin(x), None), x, length=times)
            return last
        """,
    # A reference is no part of what is differentiated: what is added to it is a value alone.
    "accumulate_sin": """
        def accumulate_sin(x, total):
            total[...] += lax.stop_gradient(x.sum(axis=0))
            return jnp.sin(x)
        """,
}
#: The functions of `custom_sin`, by the rule that it is given. Each rule calls the operation itself, so
#: that a derivative of higher order goes by the rule too.
RULES: Mapping[str, str] = {
    "reverse": """
        @partial(jax.custom_vjp, nondiff_argnums=(1,))
        def custom_sin(x, reads):
            return jnp.sin(x)


        def custom_sin_forward(x, reads):
            return custom_sin(x, reads), (x,)


        def custom_sin_backward(reads, saved, g):
            for _ in range(reads):
                (x,) = saved
            return (2 * jnp.cos(x) * g,)


        custom_sin.defvjp(custom_sin_forward, custom_sin_backward)
        """,
    "forward": """
        @jax.custom_jvp
        def sin_with_tangent(x):
            return jnp.sin(x)


        @sin_with_tangent.defjvp
        def sin_tangent(primals, tangents):
            (x,), (dx,) = primals, tangents
            return sin_with_tangent(x), 2 * jnp.cos(x) * dx
        """,
}


def custom(rules: Iterable[str]) -> str:
    """The functions that `custom_sin` needs with these rules."""
    return "\n\n".join(textwrap.dedent(RULES[rule]) for rule in sorted(rules))


def _custom_sin(call: Call) -> str:
    x, reads = call.arguments["x"], call.options["reads"]
    if call.options["rule"] == "forward":
        return f"sin_with_tangent({x})"
    return f"custom_sin({x}, {reads})"


def _conv2d(call: Call) -> str:
    stride, padding = call.options["stride"], str(call.options["padding"]).upper()
    x, w = call.arguments["x"], call.arguments["w"]
    return f'lax.conv_general_dilated({x}, {w}, ({stride}, {stride}), "{padding}")'


def _uniform_from(call: Call) -> str:
    if call.of_numpy:
        numbers = "{generator}.uniform({low}, {high}, {shape})"
        return f"jnp.asarray({numbers.format(**call.arguments, **call.options)}, jnp.float32)"
    return _uniform(replace(call, arguments={"key": call.arguments["generator"]}))


def _uniform(call: Call) -> str:
    low, high = call.options["low"], call.options["high"]
    words = [call.arguments["key"], str(call.options["shape"]), "jnp.float32"]
    if (low, high) != (0, 1):
        words += [f"minval={low}", f"maxval={high}"]
    return f"jax.random.uniform({', '.join(words)})"


OPERATIONS: Mapping[str, Writer] = {
    **usual.OPERATORS,
    **usual.functions("jnp"),
    **usual.arrays("jnp"),
    **usual.calls(HELPERS),
    **ranks.OPERATIONS,
    "conv2d": _conv2d,
    "relu": "jax.nn.relu({x})",
    "gelu": "jax.nn.gelu({x}, approximate=False)",
    "sigmoid": "jax.nn.sigmoid({x})",
    "max": usual.reduced,
    "solve": "jnp.linalg.solve({a}, {b})",
    "softmax": "jax.nn.softmax({x}, axis={axis})",
    "dropout": "dropout({key}, {x}, p={p})",
    "sum": usual.reduced,
    "mean": usual.reduced,
    "slice": usual.sliced,
    "reshape": "{x}.reshape({shape})",
    "permute_dims": "{x}.transpose({axes})",
    "concat": "jnp.concat({arrays}, axis={axis})",
    "to_complex": "lax.complex({a}, {b})",
    "stop_gradient": "lax.stop_gradient({x})",
    "uniform": _uniform,
    "uniform_from": _uniform_from,
    "numpy_uniform": "jnp.asarray(np.random.uniform({low}, {high}, {shape}), jnp.float32)",
    "python_uniform": "jnp.asarray(random.uniform({low}, {high}), jnp.float32)",
    "rrelu": "rrelu({key}, {x}, {low}, {high})",
    "branch_sin": "branch_sin({x})",
    "loop_sin": "loop_sin({x}, {times})",
    "custom_sin": _custom_sin,
    "accumulate_sin": "accumulate_sin({x}, {total})",
    "add_in_place": "{a} + {b}",  # the emitter writes it over the reference that holds a
}
