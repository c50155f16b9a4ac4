"""The operations that a case may use: names, signatures, shapes, and the residuals of each.

What an operation computes, the function of its name in `conformance.oracle.tape` says and does.
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


_INT = OptionSpec("int")
_AXIS = OptionSpec("int", -1)
_NO_AXIS = OptionSpec("int", None)
_SEED = OptionSpec("int", None)
_RANGE = {"low": OptionSpec("float", 0.0), "high": OptionSpec("float", 1.0)}
_CHANGES = ("values", "shape", "dtype", "operations", "product")
_PADDING = OptionSpec("str", "valid", ("valid", "same"))


def _op(name: str, tensors: str, shape: str, needs: str = "", **rest: object) -> Operation:
    """An operation. `needs` lists alternatives by argument: `a: b, b: a b | out b`."""
    given = (part.partition(":") for part in needs.split(",") if part)
    by_argument = {
        argument.strip(): tuple(frozenset(words.split()) for words in alternatives.split("|"))
        for argument, _, alternatives in given
    }
    return Operation(
        name,
        tuple(tensors.split()),
        shape,
        needs=by_argument,
        **rest,  # type: ignore[arg-type]
    )


def _of_x(name: str, needs: str | None, shape: str = "shape of x", **rest: object) -> Operation:
    """An operation of one tensor, of whose shape its result is if nothing else is said."""
    return _op(name, "x", shape, "" if needs is None else f"x: {needs}", **rest)


_BROADCAST = "a and b broadcast against each other"

_ALL = (
    _op("add", "a b", _BROADCAST, "a:, b:"),
    _op("subtract", "a b", _BROADCAST, "a:, b:"),
    _op("multiply", "a b", _BROADCAST, "a: b, b: a"),
    _op("divide", "a b", _BROADCAST, "a: b, b: a b | out b"),
    _of_x("negative", ""),
    _op("matmul", "a b", "(..., n, k) and (k, m) give (..., n, m)", "a: b, b: a"),
    _op(
        "solve",
        "a b",
        "(n, n) and (n, k) give (n, k)",
        "a: a out | out mask | a out mask, b: a | mask",
        capability="solve",
    ),
    _op("linear", "x w b", "(..., in), (out, in) and (out,) give (..., out)", "x: w, w: x, b:"),
    _op(
        "conv2d",
        "x w",
        "(n, c, h, w) and (o, c, kh, kw) give (n, o, h', w'); 'same' keeps h and w at stride 1, "
        "with the odd zero at the end",
        "x: w, w: x",
        options={"stride": OptionSpec("int", 1), "padding": _PADDING},
    ),
    _of_x(
        "max_pool2d",
        "x mask | x | mask",
        "(n, c, h, w) gives (n, c, h // size, w // size)",
        options={"size": _INT},
    ),
    _of_x(
        "avg_pool2d",
        "| x",
        "(n, c, h, w) gives (n, c, h // size, w // size)",
        options={"size": _INT},
    ),
    _op(
        "batch_norm",
        "x gamma beta running_mean running_var",
        "(n, c, h, w) and four of (c,) give (n, c, h, w)",
        "x: x gamma mask, gamma: x mask, beta:",
        options={"momentum": OptionSpec("float", 0.1), "eps": OptionSpec("float", 1e-5)},
        updates=("running_mean", "running_var"),
        capability="batch-norm",
    ),
    _op(
        "layer_norm",
        "x gamma beta",
        "(..., d), (d,) and (d,) give (..., d)",
        "x: x gamma mask, gamma: x mask, beta:",
        options={"eps": OptionSpec("float", 1e-5)},
    ),
    _op(
        "embedding",
        "indices table",
        "indices of any shape s and (rows, d) give (*s, d)",
        "table: indices",
    ),
    _of_x("relu", "out | x"),
    _of_x("gelu", "x"),
    _of_x("tanh", "out | x"),
    _of_x("sigmoid", "out | x"),
    _of_x("sin", "x"),
    _of_x("cos", "x"),
    _of_x("exp", "out | x"),
    _of_x("log", "x"),
    _of_x("square", "x"),
    _of_x("sqrt", "out | x"),
    _of_x("abs", "x"),
    _op("maximum", "a b", _BROADCAST, "a: a b | mask, b: a b | mask"),
    _of_x(
        "max",
        "x out | mask | x | x mask",
        "x without that axis",
        options={"axis": _AXIS, "keepdims": OptionSpec("bool", False)},
    ),
    _of_x("cumulative_sum", "| x", options={"axis": _AXIS}),
    _of_x("softmax", "out | x", options={"axis": _AXIS}),
    _of_x("dropout", "mask", options={"p": OptionSpec("float", 0.5), "seed": _SEED}, random=True),
    _of_x(
        "sum",
        "",
        "x without that axis",
        options={"axis": _NO_AXIS, "keepdims": OptionSpec("bool", False)},
    ),
    _of_x(
        "mean",
        "",
        "x without that axis",
        options={"axis": _NO_AXIS, "keepdims": OptionSpec("bool", False)},
    ),
    _of_x("reshape", "", "shape, with one -1 allowed", options={"shape": OptionSpec("ints")}),
    _of_x(
        "permute_dims", "", "the axes of x in the new order", options={"axes": OptionSpec("ints")}
    ),
    _op(
        "concat",
        "arrays...",
        "the lengths along axis added up",
        "arrays:",
        options={"axis": OptionSpec("int", 0)},
    ),
    _of_x(
        "split",
        "",
        "x with its length along axis divided by sections",
        options={"sections": _INT, "axis": OptionSpec("int", 0)},
        results=0,
    ),
    _of_x("astype", "", options={"dtype": OptionSpec("dtype")}),
    _op(
        "to_complex", "a b", "a and b have one shape, the result's", "a:, b:", capability="complex"
    ),
    _of_x("real", "", capability="complex"),
    _of_x("imag", "", capability="complex"),
    _of_x("stop_gradient", None),
    _op(
        "uniform",
        "",
        "shape",
        options={"shape": OptionSpec("ints"), **_RANGE, "seed": _SEED},
        random=True,
    ),
    _op(
        "uniform_from",
        "generator?",
        "shape",
        options={"shape": OptionSpec("ints"), **_RANGE},
        random=True,
    ),
    _op(
        "numpy_uniform",
        "",
        "shape",
        options={"shape": OptionSpec("ints"), **_RANGE},
        random=True,
        capability="numpy-random",
    ),
    _op(
        "python_uniform",
        "",
        "one number, ()",
        options=_RANGE,
        random=True,
        capability="python-random",
    ),
    _of_x(
        "rrelu",
        "x mask | mask",
        options={"low": OptionSpec("float", 0.125), "high": OptionSpec("float", 1 / 3)},
        random=True,
        capability="rrelu",
    ),
    _op("sin_or_cos", "x flag?", "shape of x", "x: x"),
    _of_x("branch_sin", "x"),
    _of_x("loop_sin", "x mask", options={"times": _INT}),
    _of_x(
        "custom_sin",
        "x",
        options={
            "reads": OptionSpec("int", 1),
            "rule": OptionSpec("str", "reverse", ("reverse", "forward")),
        },
    ),
    _of_x("asking_sin", "x", capability="gradient-flag"),
    _of_x("slope_of_sin", "x", capability="gradient-inside"),
    _of_x("noted_sin", "x"),
    _of_x(
        "unsteady_sin",
        "x",
        options={"then": OptionSpec("str", _REQUIRED, _CHANGES)},
        capability="unsteady",
    ),
    _op("counted_sin", "x seen?", "shape of x", "x: x", capability="list-changed"),
    _of_x("switched_sin", "x"),
    _of_x("doubled_sin", "x"),
    _op("raise_in_rerun", "x flag?", "shape of x", "x: x", capability="unsteady"),
    _op(
        "accumulate_sin",
        "x total",
        "(n, ...) and (...)",
        "x: x",
        updates=("total",),
        capability="accumulate",
    ),
    _op("add_in_place", "a b", "shape of a", "a:, b:", capability="in-place"),
    _op("raise_if", "x flag?", "shape of x", "x:", capability="raise"),
    _op("is_unwrapped_by", "region?", "a bool", capability="wrapped"),
    _op("hides_variables_of", "region?", "a bool", capability="wrapped"),
    _of_x("asks_gradient", None, "a bool", capability="gradient-flag"),
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
