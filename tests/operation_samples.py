"""Samples of every operation: programs of one region, and the numbers that NumPy comes to.

Adapters' tests run them to hold what is emitted for a framework to the operation's definition.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from conformance.drivers.adapter import Adapter
from conformance.emit.usual import CALLS
from conformance.language.load import load_text
from conformance.language.operations import COLLECTIVES, OPERATIONS
from conformance.model.case import Case

NumPy = Callable[..., Any]
#: Exact in float32, too: some frameworks keep options so.
EPS = 0.0009765625


erf = np.vectorize(math.erf)


def conv2d(x: Any, w: Any, stride: int, padding: tuple[int, int]) -> Any:
    x = np.pad(x, ((0, 0), (0, 0), padding, padding))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows[:, :, ::stride, ::stride], w)


def pool(x: Any, size: int) -> Any:
    """Windows of x as the last axis."""
    n, c, h, w = x.shape
    cut = x[:, :, : h // size * size, : w // size * size]
    parts = cut.reshape(n, c, h // size, size, w // size, size)
    return np.moveaxis(parts, 3, 4).reshape(n, c, h // size, w // size, size * size)


def normal(x: Any, axis: Any, eps: float) -> Any:
    mean, var = x.mean(axis, keepdims=True), x.var(axis, keepdims=True)
    return (x - mean) / np.sqrt(var + eps)


def batch_norm(a: Any, gamma: Any, beta: Any) -> Any:
    shape = (1, -1, 1, 1)
    return normal(a, (0, 2, 3), EPS) * gamma.reshape(shape) + beta.reshape(shape)


def softmax(x: Any, axis: int) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


IMAGE, MATRIX = (2, 3, 5, 4), (3, 4)
#: For each operation: statements that make y, the shapes of what they read, and NumPy's y.
NUMBERS: list[tuple[str, list[str], dict[str, tuple[int, ...]], NumPy]] = [
    ("add", ["y = add(a, b)"], {"a": MATRIX, "b": (4,)}, lambda a, b: a + b),
    ("subtract", ["y = subtract(a, b)"], {"a": (4,), "b": MATRIX}, lambda a, b: a - b),
    ("multiply", ["y = multiply(a, b)"], {"a": MATRIX, "b": (3, 1)}, lambda a, b: a * b),
    ("divide", ["y = divide(a, b)"], {"a": MATRIX, "b": (4,)}, lambda a, b: a / b),
    ("divide", ["y = divide(2.0, a)"], {"a": MATRIX}, lambda a: 2 / a),
    ("negative", ["y = negative(a)"], {"a": MATRIX}, lambda a: -a),
    ("matmul", ["y = matmul(a, b)"], {"a": (2, 3, 4), "b": (4, 5)}, lambda a, b: a @ b),
    (
        "linear",
        ["y = linear(a, w, b)"],
        {"a": (2, 3, 4), "w": (5, 4), "b": (5,)},
        lambda a, w, b: a @ w.T + b,
    ),
    (
        "conv2d",
        ["y = conv2d(a, w, stride=2)"],
        {"a": IMAGE, "w": (4, 3, 2, 2)},
        lambda a, w: conv2d(a, w, 2, (0, 0)),
    ),
    (
        "conv2d",
        ['y = conv2d(a, w, padding="same")'],
        {"a": IMAGE, "w": (4, 3, 2, 2)},
        lambda a, w: conv2d(a, w, 1, (0, 1)),
    ),
    (
        "conv2d",
        ['y = conv2d(a, w, padding="same")'],
        {"a": IMAGE, "w": (4, 3, 3, 3)},
        lambda a, w: conv2d(a, w, 1, (1, 1)),
    ),
    ("max_pool2d", ["y = max_pool2d(a, size=2)"], {"a": IMAGE}, lambda a: pool(a, 2).max(-1)),
    ("avg_pool2d", ["y = avg_pool2d(a, size=2)"], {"a": IMAGE}, lambda a: pool(a, 2).mean(-1)),
    (
        "batch_norm",
        ["y = batch_norm(a, gamma, beta, mean, var, momentum=0.25, eps=0.0009765625)"],
        {"a": IMAGE, "gamma": (3,), "beta": (3,)},
        batch_norm,
    ),
    (
        "layer_norm",
        ["y = layer_norm(a, gamma, beta, eps=0.0009765625)"],
        {"a": MATRIX, "gamma": (4,), "beta": (4,)},
        lambda a, gamma, beta: normal(a, -1, EPS) * gamma + beta,
    ),
    ("embedding", ["y = embedding(i, a)"], {"a": MATRIX}, lambda a, i: a[i]),
    (
        "relu",
        ["b = subtract(a, 1.2)", "y = relu(b)"],
        {"a": MATRIX},
        lambda a: np.maximum(a - 1.2, 0),
    ),
    ("gelu", ["y = gelu(a)"], {"a": MATRIX}, lambda a: a * (1 + erf(a / np.sqrt(2))) / 2),
    ("tanh", ["y = tanh(a)"], {"a": MATRIX}, lambda a: np.tanh(a)),
    ("sigmoid", ["y = sigmoid(a)"], {"a": MATRIX}, lambda a: 1 / (1 + np.exp(-a))),
    ("sin", ["y = sin(a)"], {"a": MATRIX}, lambda a: np.sin(a)),
    ("cos", ["y = cos(a)"], {"a": MATRIX}, lambda a: np.cos(a)),
    ("exp", ["y = exp(a)"], {"a": MATRIX}, lambda a: np.exp(a)),
    ("log", ["y = log(a)"], {"a": MATRIX}, lambda a: np.log(a)),
    ("square", ["y = square(a)"], {"a": MATRIX}, lambda a: a * a),
    ("sqrt", ["y = sqrt(a)"], {"a": MATRIX}, lambda a: np.sqrt(a)),
    ("abs", ["b = subtract(a, 1.2)", "y = abs(b)"], {"a": MATRIX}, lambda a: np.abs(a - 1.2)),
    (
        "maximum",
        ["y = maximum(a, b)"],
        {"a": MATRIX, "b": (4,)},
        lambda a, b: np.maximum(a, b),
    ),
    ("max", ["y = max(a)"], {"a": MATRIX}, lambda a: a.max(-1)),
    (
        "max",
        ["y = max(a, axis=0, keepdims=True)"],
        {"a": MATRIX},
        lambda a: a.max(0, keepdims=True),
    ),
    ("cumulative_sum", ["y = cumulative_sum(a)"], {"a": MATRIX}, lambda a: np.cumsum(a, -1)),
    (
        "cumulative_sum",
        ["y = cumulative_sum(a, axis=0)"],
        {"a": MATRIX},
        lambda a: np.cumsum(a, 0),
    ),
    (
        "solve",
        ["b = matmul(a, c)", "y = solve(b, d)"],
        {"a": (3, 4), "c": (4, 3), "d": (3, 2)},
        lambda a, c, d: np.linalg.solve(a @ c, d),
    ),
    ("branch_sin", ["y = branch_sin(a)"], {"a": MATRIX}, lambda a: np.sin(a)),
    (
        "branch_sin",
        ["b = negative(a)", "y = branch_sin(b)"],
        {"a": MATRIX},
        lambda a: np.cos(-a),
    ),
    (
        "loop_sin",
        ["y = loop_sin(a, times=3)"],
        {"a": MATRIX},
        lambda a: np.sin(np.sin(np.sin(a))),
    ),
    ("noted_sin", ["y = noted_sin(a)"], {"a": MATRIX}, lambda a: np.sin(a)),
    ("custom_sin", ["y = custom_sin(a)"], {"a": MATRIX}, lambda a: np.sin(a)),
    ("softmax", ["y = softmax(a)"], {"a": MATRIX}, lambda a: softmax(a, -1)),
    ("softmax", ["y = softmax(a, axis=0)"], {"a": MATRIX}, lambda a: softmax(a, 0)),
    ("sum", ["y = sum(a)"], {"a": MATRIX}, lambda a: a.sum()),
    ("sum", ["y = sum(a, axis=0)"], {"a": MATRIX}, lambda a: a.sum(0)),
    ("mean", ["y = mean(a)"], {"a": MATRIX}, lambda a: a.mean()),
    (
        "mean",
        ["y = mean(a, axis=1, keepdims=True)"],
        {"a": MATRIX},
        lambda a: a.mean(1, keepdims=True),
    ),
    ("reshape", ["y = reshape(a, shape=[-1, 2])"], {"a": MATRIX}, lambda a: a.reshape(-1, 2)),
    (
        "permute_dims",
        ["y = permute_dims(a, axes=[2, 0, 1])"],
        {"a": (2, 3, 4)},
        lambda a: a.transpose(2, 0, 1),
    ),
    (
        "broadcast_to",
        ["b = broadcast_to(a, shape=[2, 3, 4])", "y = multiply(b, c)"],
        {"a": (3, 1), "c": (2, 3, 4)},
        lambda a, c: np.broadcast_to(a, (2, 3, 4)) * c,
    ),
    (
        "slice",
        ["y = slice(a, start=1, stop=4, step=2, axis=1)"],
        {"a": MATRIX},
        lambda a: a[:, 1:4:2],
    ),
    ("slice", ["y = slice(a, stop=2, axis=-2)"], {"a": (2, 3, 4)}, lambda a: a[:, :2]),
    (
        "concat",
        ["y = concat([a, b, a], axis=1)"],
        {"a": MATRIX, "b": (3, 2)},
        lambda a, b: np.concatenate([a, b, a], 1),
    ),
    (
        "split",
        ["p, q = split(a, sections=2, axis=1)", "y = divide(p, q)"],
        {"a": MATRIX},
        lambda a: a[:, :2] / a[:, 2:],
    ),
    (
        "astype",
        ['b = astype(a, dtype="float32")', 'y = astype(b, dtype="float64")'],
        {"a": MATRIX},
        lambda a: a,
    ),
    # The gradient stops: as if the second factor were a constant, and so a third of (a * a)'s.
    (
        "stop_gradient",
        ["b = stop_gradient(a)", "y = multiply(a, b)"],
        {"a": MATRIX},
        lambda a: a * a,
    ),
]
#: What share of NumPy's gradient is right: one of two equal ways is stopped, or the gradient is twice
#: the derivative by definition.
SHARES = {"stop_gradient": 0.5, "custom_sin": 2.0}
RANDOM_OR_RAISING = {"dropout", "uniform", "raise_if", "rrelu", "raise_in_rerun", "unsteady_sin"}
#: Operations that are no function of tensors alone: cases check them, those of families `changes`,
#: `effects`, `in-place` and others.
IN_CASES = {
    *COLLECTIVES,
    "hooked",
    "rrelu",
    "where",
    "sin_or_cos",
    "unsteady_sin",
    "counted_sin",
    "to_complex",
    "real",
    "imag",
    "switched_sin",
    "to_default",
    "doubled_sin",
    "raise_in_rerun",
    "accumulate_sin",
    "add_in_place",
    "asks_gradient",
    "asking_sin",
    "slope_of_sin",
}


def offered(adapter: Adapter) -> set[str]:
    """The operations that some variant of an adapter has no reason to lack."""
    everywhere = set.intersection(*(set(v.model.lacks) for v in adapter.variants))
    return {name for name, o in OPERATIONS.items() if o.capability not in everywhere}


def operations_of(adapter: Adapter) -> set[str]:
    """The operations that an adapter's programs may have: its emitter's own, and what programs write
    the same way in every framework."""
    own = set(adapter.load("emitter").WORDS.operations)
    return own | set(CALLS) | {"sin_or_cos"}


def samples_of(adapter: Adapter) -> list[tuple[str, list[str], dict[str, tuple[int, ...]], NumPy]]:
    """The samples of what an adapter offers."""
    return [row for row in NUMBERS if row[0] in offered(adapter)]


def written(
    name: str,
    statements: list[str],
    shapes: Mapping[str, tuple[int, ...]],
    dtype: str = "float64",
) -> Case:
    """A case that runs statements in a region and squares y."""
    inputs = [
        f"      {name}: {{shape: {list(shape)}, uniform: [0.5, 2.0], dtype: {dtype}}}"
        for name, shape in shapes.items()
    ]
    text = " ".join(statements)
    taken = list(shapes)
    state: list[str] = []
    if "embedding" in text:
        inputs.append("      i: {shape: [2, 5], integers: [0, 3]}")
        taken.append("i")
    if "batch_norm" in text:
        of = f"{{shape: [3], full: 1.0, dtype: {dtype}}}"
        state = ["    state:", f"      mean: {of}", f"      var: {of}"]
    lines = [
        "family: written",
        "cases:",
        f"  {name}:",
        "    title: One operation",
        "    source: the test",
        "    why: The adapter emits it.",
        "    inputs:",
        *inputs,
        *state,
        "    program:",
        "      - recompute: block",
        f"        takes: [{', '.join(taken)}]",
        "        gives: y",
        "        body:",
        *(f"          - {json.dumps(statement)}" for statement in statements),
        "      - z = multiply(y, y)",
        "    outputs: z",
        "    gradients: {of: sum(z)}",
    ]
    (case,) = load_text("\n".join(lines) + "\n", "test")
    return case


def differences(function: NumPy, arrays: Mapping[str, Any], name: str) -> Any:
    """The gradient of sum(y * y) with respect to an array, by central differences."""
    step, found = 1e-6, np.zeros_like(arrays[name])
    for index in np.ndindex(found.shape):
        ends = []
        for sign in (1, -1):
            moved = arrays[name].copy()
            moved[index] += sign * step
            ends.append(np.sum(function(**{**arrays, name: moved}) ** 2))
        found[index] = (ends[0] - ends[1]) / (2 * step)
    return found
