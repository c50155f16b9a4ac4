"""The operations that a case may use: names, signatures, meaning, and the residuals of each.

Names are those of the Python array API standard where it has one. Tensors are written NCHW, weights
of `conv2d` OIHW, weights of `linear` (out, in). `needs` says, for the gradient with respect to an
argument, which values must be at hand; several alternatives where implementations legitimately
differ (relu: its output or its input). `out` is the operation's result, `mask` a value of its own
(a dropout mask, the indices of a maximum).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal as OneOf

OptionType = OneOf["int", "float", "bool", "str", "ints", "dtype"]
_REQUIRED = object()


@dataclass(frozen=True)
class OptionSpec:
    """A keyword of an operation: its type, its default, and for `str` the allowed words."""

    type: OptionType
    default: object = _REQUIRED
    words: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED


Needs = Mapping[str, tuple[frozenset[str], ...]]


@dataclass(frozen=True)
class Operation:
    """One operation.

    `tensors` are its positional arguments; one that ends in `...` takes a list (`concat([a, b])`),
    one that ends in `?` is not a tensor. `results` is the number of results, 0 where an option says
    so. `updates` names arguments that are changed in place (running statistics).
    """

    name: str
    tensors: tuple[str, ...]
    definition: str
    shape: str
    options: Mapping[str, OptionSpec] = field(default_factory=dict)
    needs: Needs = field(default_factory=dict)
    results: int = 1
    random: bool = False
    updates: tuple[str, ...] = ()
    capability: str = ""

    def signature(self) -> str:
        """The operation as a reader would write it: `conv2d(x, w, stride=1, padding='valid')`."""
        words = [f"[{t[:-3]}, …]" if t.endswith("...") else t.rstrip("?") for t in self.tensors]
        for name, spec in self.options.items():
            words.append(f"{name}=…" if spec.required else f"{name}={spec.default!r}")
        return f"{self.name}({', '.join(words)})"


def _alternatives(*sets: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(s.split()) for s in sets)


NOTHING = _alternatives("")
_INT = OptionSpec("int")
_AXIS = OptionSpec("int", -1)
_NO_AXIS = OptionSpec("int", None)
_SEED = OptionSpec("int", None)
_RANGE = {"low": OptionSpec("float", 0.0), "high": OptionSpec("float", 1.0)}
_CHANGES = ("values", "shape", "dtype", "operations", "product")
_PADDING = OptionSpec("str", "valid", ("valid", "same"))


def _op(name: str, tensors: str, definition: str, shape: str, **rest: object) -> Operation:
    return Operation(name, tuple(tensors.split()), definition, shape, **rest)  # type: ignore[arg-type]


def _elementwise(name: str, definition: str, *needs: str) -> Operation:
    return _op(name, "x", definition, "shape of x", needs={"x": _alternatives(*needs)})


_BROADCAST = "a and b broadcast against each other"

_ALL = (
    _op("add", "a b", "a + b", _BROADCAST, needs={"a": NOTHING, "b": NOTHING}),
    _op("subtract", "a b", "a - b", _BROADCAST, needs={"a": NOTHING, "b": NOTHING}),
    _op(
        "multiply",
        "a b",
        "a * b",
        _BROADCAST,
        needs={"a": _alternatives("b"), "b": _alternatives("a")},
    ),
    _op(
        "divide",
        "a b",
        "a / b",
        _BROADCAST,
        needs={"a": _alternatives("b"), "b": _alternatives("a b", "out b")},
    ),
    _elementwise("negative", "-x", ""),
    _op(
        "matmul",
        "a b",
        "a @ b",
        "(..., n, k) and (k, m) give (..., n, m)",
        needs={"a": _alternatives("b"), "b": _alternatives("a")},
    ),
    _op(
        "solve",
        "a b",
        "the solution x of a @ x = b",
        "(n, n) and (n, k) give (n, k)",
        needs={
            "a": _alternatives("a out", "out mask", "a out mask"),
            "b": _alternatives("a", "mask"),
        },
        capability="solve",
    ),
    _op(
        "linear",
        "x w b",
        "x @ w.T + b",
        "(..., in), (out, in) and (out,) give (..., out)",
        needs={"x": _alternatives("w"), "w": _alternatives("x"), "b": NOTHING},
    ),
    _op(
        "conv2d",
        "x w",
        "the sum over a window of x times w (cross-correlation), zeros around x for 'same'",
        "(n, c, h, w) and (o, c, kh, kw) give (n, o, h', w'); 'same' keeps h and w at stride 1, "
        "with the odd zero at the end",
        options={"stride": OptionSpec("int", 1), "padding": _PADDING},
        needs={"x": _alternatives("w"), "w": _alternatives("x")},
    ),
    _op(
        "max_pool2d",
        "x",
        "the maximum of each window; stride equals size, no padding",
        "(n, c, h, w) gives (n, c, h // size, w // size)",
        options={"size": _INT},
        needs={"x": _alternatives("x mask", "x", "mask")},
    ),
    _op(
        "avg_pool2d",
        "x",
        "the mean of each window; stride equals size, no padding",
        "(n, c, h, w) gives (n, c, h // size, w // size)",
        options={"size": _INT},
        needs={"x": _alternatives("", "x")},
    ),
    _op(
        "batch_norm",
        "x gamma beta running_mean running_var",
        "(x - mean) / sqrt(var + eps) * gamma + beta, mean and (biased) var over n, h, w; then "
        "running = (1 - momentum) * running + momentum * batch",
        "(n, c, h, w) and four of (c,) give (n, c, h, w)",
        options={"momentum": OptionSpec("float", 0.1), "eps": OptionSpec("float", 1e-5)},
        needs={
            "x": _alternatives("x gamma mask"),
            "gamma": _alternatives("x mask"),
            "beta": NOTHING,
        },
        updates=("running_mean", "running_var"),
        capability="batch-norm",
    ),
    _op(
        "layer_norm",
        "x gamma beta",
        "(x - mean) / sqrt(var + eps) * gamma + beta, mean and (biased) var over the last axis",
        "(..., d), (d,) and (d,) give (..., d)",
        options={"eps": OptionSpec("float", 1e-5)},
        needs={
            "x": _alternatives("x gamma mask"),
            "gamma": _alternatives("x mask"),
            "beta": NOTHING,
        },
    ),
    _op(
        "embedding",
        "indices table",
        "table[indices]",
        "indices of any shape s and (rows, d) give (*s, d)",
        needs={"table": _alternatives("indices")},
    ),
    _elementwise("relu", "maximum(x, 0)", "out", "x"),
    _elementwise("gelu", "x * (1 + erf(x / sqrt(2))) / 2", "x"),
    _elementwise("tanh", "tanh(x)", "out", "x"),
    _elementwise("sigmoid", "1 / (1 + exp(-x))", "out", "x"),
    _elementwise("sin", "sin(x)", "x"),
    _elementwise("cos", "cos(x)", "x"),
    _elementwise("exp", "exp(x)", "out", "x"),
    _elementwise("log", "log(x)", "x"),
    _elementwise("square", "x * x", "x"),
    _elementwise("sqrt", "sqrt(x)", "out", "x"),
    _elementwise("abs", "abs(x); the gradient at 0 is 0", "x"),
    _op(
        "maximum",
        "a b",
        "the larger of a and b, element by element",
        _BROADCAST,
        needs={"a": _alternatives("a b", "mask"), "b": _alternatives("a b", "mask")},
    ),
    _op(
        "max",
        "x",
        "the largest element along axis",
        "x without that axis",
        options={"axis": _AXIS, "keepdims": OptionSpec("bool", False)},
        needs={"x": _alternatives("x out", "mask", "x", "x mask")},
    ),
    _op(
        "cumulative_sum",
        "x",
        "the sums of the first elements along axis",
        "shape of x",
        options={"axis": _AXIS},
        needs={"x": _alternatives("", "x")},
    ),
    _op(
        "softmax",
        "x",
        "exp(x - max(x)) / sum(exp(x - max(x))) along axis",
        "shape of x",
        options={"axis": _AXIS},
        needs={"x": _alternatives("out", "x")},
    ),
    _op(
        "dropout",
        "x",
        "x * mask / (1 - p), mask 0 with probability p and else 1, from the implicit generator, or "
        "from the operation's own seed",
        "shape of x",
        options={"p": OptionSpec("float", 0.5), "seed": _SEED},
        needs={"x": _alternatives("mask")},
        random=True,
    ),
    _op(
        "sum",
        "x",
        "the sum over axis, over all axes where it is None",
        "x without that axis",
        options={"axis": _NO_AXIS, "keepdims": OptionSpec("bool", False)},
        needs={"x": NOTHING},
    ),
    _op(
        "mean",
        "x",
        "the mean over axis, over all axes where it is None",
        "x without that axis",
        options={"axis": _NO_AXIS, "keepdims": OptionSpec("bool", False)},
        needs={"x": NOTHING},
    ),
    _op(
        "reshape",
        "x",
        "reshape(x, shape)",
        "shape, with one -1 allowed",
        options={"shape": OptionSpec("ints")},
        needs={"x": NOTHING},
    ),
    _op(
        "permute_dims",
        "x",
        "transpose(x, axes)",
        "the axes of x in the new order",
        options={"axes": OptionSpec("ints")},
        needs={"x": NOTHING},
    ),
    _op(
        "concat",
        "arrays...",
        "concatenate(arrays, axis)",
        "the lengths along axis added up",
        options={"axis": OptionSpec("int", 0)},
        needs={"arrays": NOTHING},
    ),
    _op(
        "split",
        "x",
        "split(x, sections, axis), each an equal part",
        "x with its length along axis divided by sections",
        options={"sections": _INT, "axis": OptionSpec("int", 0)},
        needs={"x": NOTHING},
        results=0,
    ),
    _op(
        "astype",
        "x",
        "x.astype(dtype)",
        "shape of x",
        options={"dtype": OptionSpec("dtype")},
        needs={"x": NOTHING},
    ),
    _op(
        "to_complex",
        "a b",
        "a + ib, complex64 (complex128 of float64)",
        "a and b have one shape, the result's",
        needs={"a": NOTHING, "b": NOTHING},
        capability="complex",
    ),
    _op(
        "real",
        "x",
        "the real part of a complex tensor",
        "shape of x",
        needs={"x": NOTHING},
        capability="complex",
    ),
    _op(
        "imag",
        "x",
        "the imaginary part of a complex tensor",
        "shape of x",
        needs={"x": NOTHING},
        capability="complex",
    ),
    _op("stop_gradient", "x", "x, and its gradient stops here", "shape of x"),
    _op(
        "uniform",
        "",
        "low + (high - low) * u, u uniform in [0, 1), float32, from the implicit generator, or from "
        "the operation's own seed",
        "shape",
        options={"shape": OptionSpec("ints"), **_RANGE, "seed": _SEED},
        random=True,
    ),
    _op(
        "uniform_from",
        "generator?",
        "as uniform, from an explicit generator or key, which is an input",
        "shape",
        options={"shape": OptionSpec("ints"), **_RANGE},
        random=True,
    ),
    _op(
        "numpy_uniform",
        "",
        "as uniform, from NumPy's global generator",
        "shape",
        options={"shape": OptionSpec("ints"), **_RANGE},
        random=True,
        capability="numpy-random",
    ),
    _op(
        "python_uniform",
        "",
        "low + (high - low) * u, u from Python's own `random`, float32",
        "one number, ()",
        options=_RANGE,
        random=True,
        capability="python-random",
    ),
    _op(
        "rrelu",
        "x",
        "x where it is positive, else x times a slope uniform in [low, high), drawn from the implicit "
        "generator, one for each element",
        "shape of x",
        options={"low": OptionSpec("float", 0.125), "high": OptionSpec("float", 1 / 3)},
        needs={"x": _alternatives("x mask", "mask")},
        random=True,
        capability="rrelu",
    ),
    _op(
        "sin_or_cos",
        "x flag?",
        "sin(x) where the bool flag is true, else cos(x): a conditional of Python's",
        "shape of x",
        needs={"x": _alternatives("x")},
    ),
    _op(
        "branch_sin",
        "x",
        "sin(x) where the sum of x is positive, else cos(x): a conditional of the framework's",
        "shape of x",
        needs={"x": _alternatives("x")},
    ),
    _op(
        "loop_sin",
        "x",
        "sin applied `times` times: a loop of the framework's",
        "shape of x",
        options={"times": _INT},
        needs={"x": _alternatives("x mask")},
    ),
    _op(
        "custom_sin",
        "x",
        "sin(x), with a gradient written by hand, 2 * cos(x) * g, which reads what it has saved "
        "`reads` times; as a rule for cotangents (reverse) or for tangents (forward)",
        "shape of x",
        options={
            "reads": OptionSpec("int", 1),
            "rule": OptionSpec("str", "reverse", ("reverse", "forward")),
        },
        needs={"x": _alternatives("x")},
    ),
    _op(
        "asking_sin",
        "x",
        "sin(x), with a gradient written by hand, 2 * cos(x) * g, which is given only where what it has "
        "saved of x tells that a gradient can reach it",
        "shape of x",
        needs={"x": _alternatives("x")},
        capability="gradient-flag",
    ),
    _op(
        "slope_of_sin",
        "x",
        "cos(x), as the framework's own gradient of the sum of sin(x), which is taken on the spot",
        "shape of x",
        needs={"x": _alternatives("x")},
        capability="gradient-inside",
    ),
    _op(
        "noted_sin",
        "x",
        "sin(x), and a note outside of the program that it ran",
        "shape of x",
        needs={"x": _alternatives("x")},
    ),
    _op(
        "unsteady_sin",
        "x",
        "sin(x) when it is first called; called again, something else: sin(2x) (values), sin of x "
        "twice over (shape), sin of x in float64 (dtype), sin(sin(x)) (operations) or sin of x times a "
        "product of x with itself (product)",
        "shape of x",
        options={"then": OptionSpec("str", _REQUIRED, _CHANGES)},
        needs={"x": _alternatives("x")},
        capability="unsteady",
    ),
    _op(
        "counted_sin",
        "x seen?",
        "sin(n * x), n the length of the list `seen`, to which it first appends",
        "shape of x",
        needs={"x": _alternatives("x")},
        capability="list-changed",
    ),
    _op(
        "switched_sin",
        "x",
        "sin(x), or cos(x) once the program's switch is on",
        "shape of x",
        needs={"x": _alternatives("x")},
    ),
    _op(
        "doubled_sin",
        "x",
        "2 * sin(x), in the contexts that a region and its rerun run in; sin(x) outside of them",
        "shape of x",
        needs={"x": _alternatives("x")},
    ),
    _op(
        "raise_in_rerun",
        "x flag?",
        "sin(x), or ValueError('raise_in_rerun') where the bool flag is true and it was called before",
        "shape of x",
        needs={"x": _alternatives("x")},
        capability="unsteady",
    ),
    _op(
        "accumulate_sin",
        "x total",
        "sin(x), and total, in place, takes on the sum of x over its first axis",
        "(n, ...) and (...)",
        needs={"x": _alternatives("x")},
        updates=("total",),
        capability="accumulate",
    ),
    _op(
        "add_in_place",
        "a b",
        "a + b, which is written over a",
        "shape of a",
        needs={"a": NOTHING, "b": NOTHING},
        capability="in-place",
    ),
    _op(
        "raise_if",
        "x flag?",
        "x, or ValueError('raise_if') where the bool flag is true",
        "shape of x",
        needs={"x": NOTHING},
        capability="raise",
    ),
    _op(
        "is_unwrapped_by",
        "region?",
        "whether `__wrapped__` of the recomputed callable is the callable itself (true when plain)",
        "a bool",
        capability="wrapped",
    ),
    _op(
        "hides_variables_of",
        "region?",
        "whether the recomputed callable has no attribute `variables` (true when plain)",
        "a bool",
        capability="wrapped",
    ),
    _op(
        "asks_gradient",
        "x",
        "whether a gradient can reach x, as x itself tells it",
        "a bool",
        capability="gradient-flag",
    ),
)

OPERATIONS: Mapping[str, Operation] = {operation.name: operation for operation in _ALL}
#: Operations that give a bool, and no tensor.
BOOLS = frozenset(name for name, op in OPERATIONS.items() if op.shape == "a bool")
RANDOM: frozenset[str] = frozenset(o.name for o in _ALL if o.random)
#: Operations with a side effect: they append to a global list when they run.
NOTED: frozenset[str] = frozenset({"noted_sin"})
#: Operations that inspect the recomputed callable; in the plain program they give true.
OF_CALLABLES: frozenset[str] = frozenset({"is_unwrapped_by", "hides_variables_of"})
#: Words from other libraries, and the standard's name for the same operation.
RENAMED: Mapping[str, str] = {
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "neg": "negative",
    "transpose": "permute_dims",
    "cast": "astype",
    "concatenate": "concat",
    "detach": "stop_gradient",
    "cumsum": "cumulative_sum",
    "amax": "max",
}
