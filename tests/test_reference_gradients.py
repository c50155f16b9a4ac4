"""The reference's operations: values against their definitions, gradients against differences."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from conformance.language.operations import OPERATIONS
from conformance.oracle import tape

#: Operations without a gradient, and the test that says so.
WITHOUT_GRADIENT = {
    "stop_gradient": "test_stop_gradient_stops",
    "uniform": "test_uniform_has_no_gradient",
    "uniform_from": "test_sources_of_random_numbers_have_no_gradient",
    "numpy_uniform": "test_sources_of_random_numbers_have_no_gradient",
    "python_uniform": "test_sources_of_random_numbers_have_no_gradient",
    "asks_gradient": "test_a_tensor_tells_whether_a_gradient_can_reach_it",
    "is_unwrapped_by": "test_a_recomputed_callable_gives_the_original_back",
    "hides_variables_of": "test_a_recomputed_callable_gives_the_original_back",
}


@dataclass(frozen=True)
class Trial:
    """An operation, the shapes of its tensors (in order), options, and what else it is called with.

    `call` replaces the plain call `op(*tensors, **options)`; `low` moves the draws away from 0.
    """

    op: str
    shapes: Sequence[tuple[int, ...]]
    options: Mapping[str, Any] = field(default_factory=dict)
    call: Callable[..., Any] | None = None
    low: float | None = None

    @property
    def id(self) -> str:
        shapes = ",".join("x".join(map(str, shape)) or "scalar" for shape in self.shapes)
        options = ",".join(f"{k}={v}" for k, v in self.options.items())
        return f"{self.op}-{shapes}" + (f"-{options}" if options else "")

    def inputs(self) -> list[np.ndarray]:
        rng = np.random.default_rng(7)
        if self.low is not None:
            return [np.array(self.low + rng.random(shape)) for shape in self.shapes]
        return [np.array(rng.standard_normal(shape)) for shape in self.shapes]

    def result(self, tensors: Sequence[Any]) -> Any:
        """One tensor: the results flattened and put one after another."""
        operation = self.call or getattr(tape, self.op)
        results = operation(*tensors, **self.options)
        parts = results if isinstance(results, tuple) else (results,)
        return tape.concat([tape.reshape(part, (-1,)) for part in parts])


def _batch_norm(x: Any, gamma: Any, beta: Any, **options: float) -> Any:
    channels = gamma.shape[0]
    running = tape.tensor(np.zeros(channels)), tape.tensor(np.ones(channels))
    return tape.batch_norm(x, gamma, beta, *running, **options)


def _embedding(table: Any) -> Any:
    return tape.embedding(tape.tensor([[0, 2, 2], [1, 0, 2]], dtype="int32"), table)


def _dropout(x: Any, p: float = 0.5) -> Any:
    tape.seed(3)
    return tape.dropout(x, p)


def _binary(op: str, low: float | None = None) -> list[Trial]:
    pairs = [((3, 4), (3, 4)), ((3, 4), (4,)), ((1, 4), (3, 1)), ((), (2, 3)), ((2, 1, 3), (4, 1))]
    return [Trial(op, pair, low=low) for pair in pairs]


def _solved(a: Any, b: Any) -> Any:
    return tape.solve(tape.add(a, tape.tensor(4 * np.eye(3), dtype="float64")), b)


def _accumulated(x: Any) -> Any:
    return tape.accumulate_sin(x, tape.tensor(np.zeros(4), dtype="float64"))


def _complex(a: Any, b: Any) -> Any:
    """The product of both parts, and back."""
    c = tape.to_complex(tape.sin(a), b)
    return tape.multiply(tape.real(c), tape.imag(c))


def _custom(x: Any) -> Any:
    """Twice the sine, one of them without a gradient and the other with twice its own."""
    return tape.add(tape.custom_sin(x), tape.stop_gradient(tape.sin(x)))


def _hooked(x: Any) -> Any:
    """Twice the sine, once without a gradient and once with a hook that makes it twice as large."""
    return tape.add(tape.hooked(tape.sin(x)), tape.stop_gradient(tape.sin(x)))


def _asking(x: Any) -> Any:
    """As `_custom`, whose rule is the same."""
    return tape.add(tape.asking_sin(x), tape.stop_gradient(tape.sin(x)))


def _chosen(a: Any, b: Any) -> Any:
    condition = tape.tensor([[True, False, True], [False, False, True]], dtype="bool")
    return tape.where(condition, a, b)


def _drawn(x: Any) -> Any:
    """The same slopes at every call."""
    tape.seed(3)
    return tape.rrelu(x)


TRIALS = [
    *_binary("add"),
    *_binary("subtract"),
    *_binary("multiply"),
    *_binary("divide", low=0.5),
    Trial("negative", [(3, 4)]),
    Trial("square", [(3, 4)]),
    Trial("sqrt", [(3, 4)], low=0.5),
    Trial("abs", [(3, 4)], low=0.5),
    Trial("maximum", [(3, 4), (4,)]),
    Trial("max", [(3, 4)]),
    Trial("max", [(3, 4)], {"axis": 0, "keepdims": True}),
    Trial("cumulative_sum", [(3, 4)]),
    Trial("cumulative_sum", [(3, 4)], {"axis": 0}),
    Trial("solve", [(3, 3), (3, 2)], call=_solved),
    Trial("sin_or_cos", [(3, 4)], {"flag": False}),
    Trial("branch_sin", [(3, 4)]),
    Trial("loop_sin", [(3, 4)], {"times": 3}),
    Trial("asking_sin", [(3, 4)], call=_asking),
    Trial("slope_of_sin", [(3, 4)]),
    Trial("noted_sin", [(3, 4)]),
    Trial("unsteady_sin", [(3, 4)], {"then": "values"}),
    Trial("to_complex", [(3, 4), (3, 4)], call=_complex),
    Trial("real", [(3, 4), (3, 4)], call=_complex),
    Trial("imag", [(3, 4), (3, 4)], call=_complex),
    Trial("counted_sin", [(3, 4)], {"seen": ()}),
    Trial("switched_sin", [(3, 4)]),
    Trial("doubled_sin", [(3, 4)]),
    Trial("raise_in_rerun", [(3, 4)], {"flag": False}),
    Trial("accumulate_sin", [(3, 4)], call=_accumulated),
    Trial("add_in_place", [(3, 4), (3, 4)]),
    Trial("custom_sin", [(3, 4)], call=_custom),
    Trial("hooked", [(3, 4)], call=_hooked),
    Trial("rrelu", [(3, 4)], call=_drawn),
    Trial("matmul", [(3, 4), (4, 2)]),
    Trial("matmul", [(2, 3, 4), (4, 2)]),
    Trial("matmul", [(2, 1, 3, 4), (5, 4, 2)]),
    Trial("linear", [(3, 4), (5, 4), (5,)]),
    Trial("linear", [(2, 3, 4), (5, 4), (5,)]),
    Trial("conv2d", [(2, 3, 5, 4), (4, 3, 3, 2)]),
    Trial("conv2d", [(2, 2, 5, 5), (3, 2, 2, 2)], {"padding": "same"}),
    Trial("conv2d", [(1, 2, 6, 7), (2, 2, 3, 3)], {"stride": 2}),
    Trial("conv2d", [(1, 2, 6, 7), (2, 2, 3, 3)], {"stride": 2, "padding": "same"}),
    Trial("conv2d", [(2, 3, 4, 4), (2, 3, 1, 1)], {"stride": 3}),
    Trial("max_pool2d", [(2, 2, 4, 6)], {"size": 2}),
    Trial("max_pool2d", [(1, 2, 5, 7)], {"size": 3}),
    Trial("avg_pool2d", [(2, 2, 4, 6)], {"size": 2}),
    Trial("avg_pool2d", [(1, 2, 5, 7)], {"size": 3}),
    Trial("batch_norm", [(4, 3, 2, 2), (3,), (3,)], call=_batch_norm),
    Trial("batch_norm", [(3, 2, 3, 1), (2,), (2,)], {"eps": 0.1}, call=_batch_norm),
    Trial("layer_norm", [(3, 5), (5,), (5,)]),
    Trial("layer_norm", [(2, 3, 4), (4,), (4,)], {"eps": 0.1}),
    Trial("embedding", [(3, 4)], call=_embedding),
    Trial("relu", [(3, 4)]),
    Trial("gelu", [(3, 4)]),
    Trial("tanh", [(3, 4)]),
    Trial("sigmoid", [(3, 4)]),
    Trial("sin", [(3, 4)]),
    Trial("cos", [(3, 4)]),
    Trial("exp", [(3, 4)]),
    Trial("log", [(3, 4)], low=0.5),
    Trial("softmax", [(3, 4)]),
    Trial("softmax", [(3, 4, 2)], {"axis": 1}),
    Trial("dropout", [(3, 4)], call=_dropout),
    Trial("dropout", [(3, 4)], {"p": 0.2}, call=_dropout),
    *(
        Trial(op, [(2, 3, 4)], {"axis": axis, "keepdims": keepdims})
        for op in ("sum", "mean")
        for axis in (None, 1, -1)
        for keepdims in (False, True)
    ),
    Trial("reshape", [(2, 6)], {"shape": (3, -1)}),
    Trial("permute_dims", [(2, 3, 4)], {"axes": (2, 0, 1)}),
    Trial("where", [(2, 3), (2, 3)], call=_chosen),
    Trial("broadcast_to", [(3, 1)], {"shape": (2, 3, 4)}),
    Trial("slice", [(5, 3)], {"start": 1, "step": 2}),
    Trial("slice", [(2, 5)], {"stop": 3, "axis": -1}),
    Trial("concat", [(2, 3), (2, 1)], {"axis": 1}, call=lambda *t, axis: tape.concat(t, axis)),
    Trial("concat", [(2, 3), (1, 3)], call=lambda *t: tape.concat(t)),
    Trial("split", [(4, 3)], {"sections": 2}),
    Trial("split", [(2, 6)], {"sections": 3, "axis": -1}),
    Trial("astype", [(3, 4)], {"dtype": "float64"}),
    Trial("to_default", [(3, 4)], {"dtype": "float64"}),
    Trial("raise_if", [(3, 4)], call=lambda x: tape.raise_if(x, False)),
]
EPS = 1e-6


def test_every_operation_has_a_gradient_test() -> None:
    tried = {trial.op for trial in TRIALS}
    of_ranks = {"all_reduce", "all_gather", "reduce_scatter"}  # those in test_ranks.py
    assert tried | set(WITHOUT_GRADIENT) | of_ranks == set(OPERATIONS)
    for op, test in WITHOUT_GRADIENT.items():
        assert not OPERATIONS[op].needs
        assert test in globals()


def test_every_differentiable_argument_is_tried() -> None:
    for trial in TRIALS:
        assert len(trial.shapes) >= len(OPERATIONS[trial.op].needs), trial.id


def _weights(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def _tensors(arrays: Sequence[np.ndarray]) -> list[Any]:
    return [tape.tensor(a, dtype="float64", gradient=True) for a in arrays]


def _first(trial: Trial, arrays: Sequence[np.ndarray], recomputed: bool) -> tuple[list[Any], ...]:
    """Tensors and the gradients of a weighted sum of the results, differentiable again."""
    tensors = _tensors(arrays)
    body = (
        (lambda *t: trial.result(t))
        if not recomputed
        else tape.recompute(lambda *t: trial.result(t))
    )
    out = body(*tensors)
    loss = tape.sum(tape.multiply(out, tape.tensor(_weights(out.shape, 1), dtype="float64")))
    return tensors, tape.gradient(loss, tensors, create_graph=True)


def _value(trial: Trial, arrays: Sequence[np.ndarray]) -> float:
    out = trial.result(_tensors(arrays))
    return float((out.data * _weights(out.shape, 1)).sum())


def _differences(function: Callable[[Sequence[np.ndarray]], float], arrays: Sequence[np.ndarray]):
    """Central finite differences with respect to every element of every array."""
    found = []
    for number, array in enumerate(arrays):
        slope = np.zeros(array.shape)
        for index in np.ndindex(array.shape):
            moved = [a.copy() for a in arrays]
            moved[number][index] = array[index] + EPS
            above = function(moved)
            moved[number][index] = array[index] - EPS
            slope[index] = (above - function(moved)) / (2 * EPS)
        found.append(slope)
    return found


@pytest.mark.parametrize("recomputed", [False, True], ids=["plain", "recomputed"])
@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.id)
def test_gradient_is_the_finite_difference(trial: Trial, recomputed: bool) -> None:
    arrays = trial.inputs()
    _, gradients = _first(trial, arrays, recomputed)
    expected = _differences(lambda moved: _value(trial, moved), arrays)
    for gradient, slope in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient.data, slope, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("recomputed", [False, True], ids=["plain", "recomputed"])
@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.id)
def test_second_gradient_is_the_finite_difference(trial: Trial, recomputed: bool) -> None:
    arrays = trial.inputs()

    def slope(moved: Sequence[np.ndarray]) -> float:
        _, gradients = _first(trial, moved, False)
        return sum(float((g.data * _weights(g.shape, 2)).sum()) for g in gradients)

    tensors, gradients = _first(trial, arrays, recomputed)
    total = tape.total(
        [tape.multiply(g, tape.tensor(_weights(g.shape, 2), dtype="float64")) for g in gradients]
    )
    second = tape.gradient(total, tensors)
    for found, expected in zip(second, _differences(slope, arrays), strict=True):
        array = np.zeros(expected.shape) if found is None else found.data
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-6)


def test_stop_gradient_stops() -> None:
    x = tape.tensor([1.0, 2.0], gradient=True)
    stopped = tape.stop_gradient(x)
    assert tape.gradient(tape.sum(stopped), [x]) == [None]
    (g,) = tape.gradient(tape.sum(tape.multiply(x, stopped)), [x])
    assert g.data.tolist() == [1.0, 2.0]


def test_uniform_has_no_gradient() -> None:
    u = tape.uniform((2, 3), low=2.0, high=3.0)
    assert u.node is None
    assert u.dtype == "float32"
    assert ((u.data >= 2) & (u.data <= 3)).all()
    assert (u.data == u.data.astype(np.float32)).all()


def test_sources_of_random_numbers_have_no_gradient() -> None:
    random.seed(3)
    np.random.seed(3)
    made = (
        (tape.uniform_from(tape.generator(3), (2, 3), low=2.0, high=3.0), (2, 3)),
        (tape.numpy_uniform((2, 3), low=2.0, high=3.0), (2, 3)),
        (tape.python_uniform(low=2.0, high=3.0), ()),
    )
    for u, shape in made:
        assert (u.node, u.dtype, u.shape) == (None, "float32", shape)
        assert ((u.data >= 2) & (u.data <= 3)).all()
    np.testing.assert_allclose(made[0][0].data, 2 + np.random.default_rng(3).random((2, 3)), 1e-6)


def test_a_seed_of_its_own_leaves_the_generator_alone() -> None:
    tape.seed(1)
    before = tape.random_state()[0]
    first, second = tape.uniform((4,), seed=5), tape.uniform((4,), seed=5)
    assert (first.data == second.data).all()
    x = tape.tensor(np.ones(64))
    assert (tape.dropout(x, seed=5).data == tape.dropout(x, seed=5).data).all()
    assert tape.random_state()[0] == before


def test_a_tensor_tells_whether_a_gradient_can_reach_it() -> None:
    x, frozen = tape.tensor([1.0], gradient=True), tape.tensor([1.0])
    assert tape.asks_gradient(tape.sin(x))
    assert not tape.asks_gradient(tape.sin(frozen))
    assert not tape.asks_gradient(tape.stop_gradient(x))
    a, d = tape.recompute(lambda x: (tape.sin(x), tape.stop_gradient(x)))(x)
    assert tape.asks_gradient(a)
    assert not tape.asks_gradient(d)


def test_a_recomputed_callable_gives_the_original_back() -> None:
    def block(x: Any) -> Any:
        return x

    assert tape.recompute(block).__wrapped__ is block
    assert not hasattr(tape.recompute(block), "variables")


# -- values ----------------------------------------------------------------------------------------


def _convolved(x: np.ndarray, w: np.ndarray, stride: int, same: bool) -> np.ndarray:
    n, _, height, width = x.shape
    o, _, kh, kw = w.shape
    if same:
        rows, columns = math.ceil(height / stride), math.ceil(width / stride)
        down = max(0, (rows - 1) * stride + kh - height)
        right = max(0, (columns - 1) * stride + kw - width)
        pads = ((down // 2, down - down // 2), (right // 2, right - right // 2))
        x = np.pad(x, ((0, 0), (0, 0), *pads))
    else:
        rows, columns = (height - kh) // stride + 1, (width - kw) // stride + 1
    out = np.zeros((n, o, rows, columns))
    for a, b, i, j in itertools.product(range(n), range(o), range(rows), range(columns)):
        window = x[a, :, i * stride : i * stride + kh, j * stride : j * stride + kw]
        out[a, b, i, j] = (window * w[b]).sum()
    return out


def _pooled(x: np.ndarray, size: int, reduce: Callable[..., Any]) -> np.ndarray:
    n, c, height, width = x.shape
    out = np.zeros((n, c, height // size, width // size))
    for i, j in itertools.product(range(height // size), range(width // size)):
        window = x[:, :, i * size : (i + 1) * size, j * size : (j + 1) * size]
        out[:, :, i, j] = reduce(window, axis=(2, 3))
    return out


def _normal(x: np.ndarray, axes: Any, eps: float) -> np.ndarray:
    variance = ((x - x.mean(axes, keepdims=True)) ** 2).mean(axes, keepdims=True)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(variance + eps)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(v) for v in x.ravel()]).reshape(x.shape)


def _channels(v: np.ndarray) -> np.ndarray:
    return v[None, :, None, None]


DEFINITIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "negative": lambda x: -x,
    "square": np.square,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "maximum": np.maximum,
    "max": lambda x, axis=-1, keepdims=False: x.max(axis, keepdims=keepdims),
    "cumulative_sum": lambda x, axis=-1: np.cumsum(x, axis),
    "solve": lambda a, b: np.linalg.inv(a + 4 * np.eye(3)) @ b,
    "sin_or_cos": lambda x, flag: np.sin(x) if flag else np.cos(x),
    "branch_sin": lambda x: np.sin(x) if x.sum() > 0 else np.cos(x),
    "loop_sin": lambda x, times: np.sin(np.sin(np.sin(x))),
    "asking_sin": lambda x: 2 * np.sin(x),
    "slope_of_sin": np.cos,
    "noted_sin": np.sin,
    "unsteady_sin": lambda x, then: np.sin(x),
    **dict.fromkeys(("to_complex", "real", "imag"), lambda a, b: np.sin(a) * b),
    "counted_sin": lambda x, seen: np.sin(x),
    "switched_sin": np.sin,
    "to_default": lambda x, dtype: x,
    "doubled_sin": lambda x: 2 * np.sin(x),
    "raise_in_rerun": lambda x, flag: np.sin(x),
    "accumulate_sin": np.sin,
    "add_in_place": np.add,
    "custom_sin": lambda x: 2 * np.sin(x),
    "hooked": lambda x: 2 * np.sin(x),
    "matmul": np.matmul,
    "linear": lambda x, w, b: np.einsum("...i,oi->...o", x, w) + b,
    "conv2d": lambda x, w, stride=1, padding="valid": _convolved(x, w, stride, padding == "same"),
    "max_pool2d": lambda x, size: _pooled(x, size, np.max),
    "avg_pool2d": lambda x, size: _pooled(x, size, np.mean),
    "batch_norm": lambda x, g, b, eps=1e-5: (
        _normal(x, (0, 2, 3), eps) * _channels(g) + _channels(b)
    ),
    "layer_norm": lambda x, g, b, eps=1e-5: _normal(x, -1, eps) * g + b,
    "embedding": lambda table: table[[[0, 2, 2], [1, 0, 2]]],
    "relu": lambda x: np.where(x > 0, x, 0),
    "gelu": lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sin": np.sin,
    "cos": np.cos,
    "exp": np.exp,
    "log": np.log,
    "softmax": lambda x, axis=-1: np.exp(x) / np.exp(x).sum(axis, keepdims=True),
    "sum": np.sum,
    "mean": np.mean,
    "reshape": lambda x, shape: x.reshape(shape),
    "permute_dims": np.transpose,
    "where": lambda a, b: np.where([[True, False, True], [False, False, True]], a, b),
    "broadcast_to": np.broadcast_to,
    "slice": lambda x, start=0, stop=None, step=1, axis=0: x.swapaxes(0, axis)[
        start:stop:step
    ].swapaxes(0, axis),
    "concat": lambda *arrays, axis=0: np.concatenate(arrays, axis),
    "split": lambda x, sections, axis=0: tuple(np.split(x, sections, axis)),
    "astype": lambda x, dtype: x.astype(dtype),
    "raise_if": lambda x: x,
}


@pytest.mark.parametrize(
    "trial", [t for t in TRIALS if t.op not in ("dropout", "rrelu")], ids=lambda trial: trial.id
)
def test_value_is_the_definition(trial: Trial) -> None:
    arrays = trial.inputs()
    expected = DEFINITIONS[trial.op](*arrays, **trial.options)
    parts = expected if isinstance(expected, tuple) else (expected,)
    flat = np.concatenate([np.ravel(part) for part in parts])
    np.testing.assert_allclose(trial.result(_tensors(arrays)).data, flat, rtol=1e-12, atol=1e-13)


def test_dropout_zeroes_and_scales() -> None:
    x = tape.tensor(np.ones(10_000), dtype="float64")
    tape.seed(0)
    y = tape.dropout(x, p=0.2).data
    assert set(np.unique(y)) == {0.0, 1.25}
    assert 0.17 < (y == 0).mean() < 0.23


def test_documented_convolution_gradient() -> None:
    x = tape.tensor(np.full((2, 2, 2, 2), 2.0), gradient=True)
    w = tape.tensor(np.ones((2, 2, 2, 2)), gradient=True)
    conv = tape.recompute(lambda x: tape.conv2d(x, w, padding="same"))
    (g,) = tape.gradient(tape.sum(tape.relu(conv(x))), [x])
    assert g.data.tolist() == [[[[2, 4], [4, 8]]] * 2] * 2


def test_batch_norm_updates_running_statistics_in_every_run() -> None:
    mean, variance = tape.tensor([1.0]), tape.tensor([1.0])
    x = tape.tensor(np.arange(4.0).reshape(4, 1, 1, 1), gradient=True)
    one = tape.tensor([1.0])
    block = tape.recompute(
        lambda x: tape.tanh(tape.batch_norm(x, one, one, mean, variance, momentum=0.5))
    )
    loss = tape.sum(block(x))
    assert (mean.data[0], variance.data[0]) == (1.25, 1.125)
    tape.gradient(loss, [x])
    assert (mean.data[0], variance.data[0]) == (1.375, 1.1875)


@pytest.mark.parametrize(
    ("number", "dtype", "expected"),
    [
        (1 + 2**-9, "bfloat16", 1.0),
        (1 + 3 * 2**-8, "bfloat16", 1 + 2**-6),  # a tie goes to the even neighbour
        (1 + 2**-8, "bfloat16", 1.0),
        (-3.0e38, "bfloat16", -226 * 2.0**120),
        (0.1, "float32", float(np.float32(0.1))),
        (0.1, "float16", float(np.float16(0.1))),
        (-2.7, "int32", -2),
    ],
)
def test_casts_round(number: float, dtype: str, expected: float) -> None:
    cast = tape.astype(tape.tensor([number], dtype="float64"), dtype)
    assert cast.dtype == dtype
    assert cast.data[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (("float32", "float32"), "float32"),
        (("bfloat16", "bfloat16"), "bfloat16"),
        (("bfloat16", "float32"), "float32"),
        (("bfloat16", "int32"), "bfloat16"),
        (("float16", "bfloat16"), "float32"),
        (("bfloat16", "float64"), "float64"),
        (("float32", tape.NUMBER), "float32"),
        (("float32", "float64"), "float64"),
    ],
)
def test_dtype_of_mixed_operands(dtypes: tuple[str, ...], expected: str) -> None:
    assert tape.promote(*dtypes) == expected


@pytest.mark.parametrize("given", [0, 1], ids=["computed", "given by a region inside"])
def test_what_a_region_leaves_elsewhere_has_its_gradient(given: int) -> None:
    """It is no result of the region, and the rerun makes it again."""
    x, left = tape.tensor([0.5, 1.0], "float64", gradient=True), []

    def block(x: tape.Tensor) -> tape.Tensor:
        inside = tape.recompute(tape.exp) if given else tape.exp
        left.append(inside(tape.sin(x)))
        return tape.sin(x)

    tape.recompute(block)(x)
    loss = tape.sum(left.pop())
    (found,) = tape.gradient(loss, [x])
    assert found is not None
    np.testing.assert_allclose(found.data, np.cos(x.data) * np.exp(np.sin(x.data)))


@pytest.mark.parametrize("function", [tape.exp, tape.recompute(tape.exp)])
def test_a_hook_is_called_for_what_the_gradient_of_the_result_reads_too(function: Any) -> None:
    # The gradient of exp reads its result, so that the second one comes to the hook again.
    x = tape.tensor(np.full(3, 0.5), "float64", gradient=True)
    loss = tape.sum(tape.hooked(function(x)))
    (slope,) = tape.gradient(loss, [x], create_graph=True)
    assert slope is not None
    (bent,) = tape.gradient(tape.sum(slope), [x])
    assert bent is not None
    np.testing.assert_allclose(slope.data, 2 * np.exp(x.data))
    np.testing.assert_allclose(bent.data, 4 * np.exp(x.data))
