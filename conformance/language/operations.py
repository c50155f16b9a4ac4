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
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

_REQUIRED = object()


@dataclass(frozen=True)
class OptionSpec:
    """A keyword of an operation: its type, its default, and for `str` the allowed words."""

    type: OneOf["int", "float", "bool", "str", "ints", "dtype"]
    default: object = _REQUIRED
    words: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED


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
    options: Mapping[str, OptionSpec]
    needs: Mapping[str, tuple[frozenset[str], ...]]
    results: int
    random: bool
    updates: tuple[str, ...]
    capability: str

    def signature(self) -> str:
        """The operation as a reader would write it: `conv2d(x, w, stride=1, padding='valid')`."""
        words = [f"[{t[:-3]}, …]" if t.endswith("...") else t.rstrip("?") for t in self.tensors]
        for name, spec in self.options.items():
            words.append(f"{name}=…" if spec.required else f"{name}={spec.default!r}")
        return f"{self.name}({', '.join(words)})"


_INT, _INTS = OptionSpec("int"), OptionSpec("ints")
_FIRST, _LAST, _NONE = OptionSpec("int", 0), OptionSpec("int", -1), OptionSpec("int", None)
_OFF, _EPS = OptionSpec("bool", False), OptionSpec("float", 1e-5)
_RANGE: dict[str, Any] = {"low": OptionSpec("float", 0.0), "high": OptionSpec("float", 1.0)}
_DRAWN = {"shape": _INTS, **_RANGE}
_PADDING = OptionSpec("str", "valid", ("valid", "same"))
_RULE = OptionSpec("str", "reverse", ("reverse", "forward"))
_CHANGES = OptionSpec("str", words=("values", "shape", "dtype", "operations", "product"))
_SLOPES: dict[str, Any] = {"low": OptionSpec("float", 0.125), "high": OptionSpec("float", 1 / 3)}
_SOLVED = "a: a out | out mask | a out mask, b: a | mask"
_NORMED = "x: x gamma mask, gamma: x mask, beta:"
_BROADCAST = "a and b broadcast against each other"
_POOLED = "(n, c, h, w) gives (n, c, h // size, w // size)"
_REDUCED = "x without that axis"
_DIVIDED = "x with its length along axis divided by sections"
_LOOKED_UP = "indices of any shape s and (rows, d) give (*s, d)"
_TOGETHER = "a and b have one shape, the result's"
_ADDED = "(n, ...) and (...)"
_ONE = "one number, ()"
_CONVOLVED = (
    "(n, c, h, w) and (o, c, kh, kw) give (n, o, h', w'); 'same' keeps h and w at stride 1, "
    "with the odd zero at the end"
)


def _op(
    name: str,
    tensors: str,
    needs: str = "",
    shape: str = "shape of x",
    /,
    *,
    results: int = 1,
    random: bool = False,
    updates: str = "",
    capability: str = "",
    **options: OptionSpec,
) -> Operation:
    """An operation. `needs` lists alternatives by argument: `a: b, b: a b | out b`."""
    given = (part.partition(":") for part in needs.split(",") if part)
    by_argument = {
        argument.strip(): tuple(frozenset(words.split()) for words in alternatives.split("|"))
        for argument, _, alternatives in given
    }
    names, changed = tuple(tensors.split()), tuple(updates.split())
    return Operation(name, names, shape, options, by_argument, results, random, changed, capability)


_ALL = (
    _op("add", "a b", "a:, b:", _BROADCAST),
    _op("subtract", "a b", "a:, b:", _BROADCAST),
    _op("multiply", "a b", "a: b, b: a", _BROADCAST),
    _op("divide", "a b", "a: b, b: a b | out b", _BROADCAST),
    _op("negative", "x", "x:"),
    _op("matmul", "a b", "a: b, b: a", "(..., n, k) and (k, m) give (..., n, m)"),
    _op("solve", "a b", _SOLVED, "(n, n) and (n, k) give (n, k)", capability="solve"),
    _op("linear", "x w b", "x: w, w: x, b:", "(..., in), (out, in) and (out,) give (..., out)"),
    _op("conv2d", "x w", "x: w, w: x", _CONVOLVED, stride=OptionSpec("int", 1), padding=_PADDING),
    _op("max_pool2d", "x", "x: x mask | x | mask", _POOLED, size=_INT),
    _op("avg_pool2d", "x", "x: | x", _POOLED, size=_INT),
    _op(
        "batch_norm",
        "x gamma beta running_mean running_var",
        _NORMED,
        "(n, c, h, w) and four of (c,) give (n, c, h, w)",
        updates="running_mean running_var",
        capability="batch-norm",
        momentum=OptionSpec("float", 0.1),
        eps=_EPS,
    ),
    _op("layer_norm", "x gamma beta", _NORMED, "(..., d), (d,) and (d,) give (..., d)", eps=_EPS),
    _op("embedding", "indices table", "table: indices", _LOOKED_UP),
    _op("relu", "x", "x: out | x"),
    _op("gelu", "x", "x: x"),
    _op("tanh", "x", "x: out | x"),
    _op("sigmoid", "x", "x: out | x"),
    _op("sin", "x", "x: x"),
    _op("cos", "x", "x: x"),
    _op("exp", "x", "x: out | x"),
    _op("log", "x", "x: x"),
    _op("square", "x", "x: x"),
    _op("sqrt", "x", "x: out | x"),
    _op("abs", "x", "x: x"),
    _op("maximum", "a b", "a: a b | mask, b: a b | mask", _BROADCAST),
    _op("max", "x", "x: x out | mask | x | x mask", _REDUCED, axis=_LAST, keepdims=_OFF),
    _op("cumulative_sum", "x", "x: | x", axis=_LAST),
    _op("softmax", "x", "x: out | x", axis=_LAST),
    _op("dropout", "x", "x: mask", random=True, p=OptionSpec("float", 0.5), seed=_NONE),
    _op("sum", "x", "x:", _REDUCED, axis=_NONE, keepdims=_OFF),
    _op("mean", "x", "x:", _REDUCED, axis=_NONE, keepdims=_OFF),
    _op("reshape", "x", "x:", "shape, with one -1 allowed", shape=_INTS),
    _op("permute_dims", "x", "x:", "the axes of x in the new order", axes=_INTS),
    _op("concat", "arrays...", "arrays:", "the lengths along axis added up", axis=_FIRST),
    _op("split", "x", "x:", _DIVIDED, results=0, sections=_INT, axis=_FIRST),
    _op("astype", "x", "x:", dtype=OptionSpec("dtype")),
    _op("to_complex", "a b", "a:, b:", _TOGETHER, capability="complex"),
    _op("real", "x", "x:", capability="complex"),
    _op("imag", "x", "x:", capability="complex"),
    _op("stop_gradient", "x"),
    _op("uniform", "", "", "shape", random=True, **_DRAWN, seed=_NONE),
    _op("uniform_from", "generator?", "", "shape", random=True, **_DRAWN),
    _op("numpy_uniform", "", "", "shape", random=True, capability="numpy-random", **_DRAWN),
    _op("python_uniform", "", "", _ONE, random=True, capability="python-random", **_RANGE),
    _op("rrelu", "x", "x: x mask | mask", random=True, capability="rrelu", **_SLOPES),
    _op("sin_or_cos", "x flag?", "x: x"),
    _op("branch_sin", "x", "x: x"),
    _op("loop_sin", "x", "x: x mask", times=_INT),
    _op("custom_sin", "x", "x: x", reads=OptionSpec("int", 1), rule=_RULE),
    _op("asking_sin", "x", "x: x", capability="gradient-flag"),
    _op("slope_of_sin", "x", "x: x", capability="gradient-inside"),
    _op("noted_sin", "x", "x: x"),
    _op("unsteady_sin", "x", "x: x", capability="unsteady", then=_CHANGES),
    _op("counted_sin", "x seen?", "x: x", capability="list-changed"),
    _op("switched_sin", "x", "x: x"),
    _op("doubled_sin", "x", "x: x"),
    _op("raise_in_rerun", "x flag?", "x: x", capability="unsteady"),
    _op("accumulate_sin", "x total", "x: x", _ADDED, updates="total", capability="accumulate"),
    _op("add_in_place", "a b", "a:, b:", "shape of a", capability="in-place"),
    _op("raise_if", "x flag?", "x:", capability="raise"),
    _op("is_unwrapped_by", "region?", "", "a bool", capability="wrapped"),
    _op("hides_variables_of", "region?", "", "a bool", capability="wrapped"),
    _op("asks_gradient", "x", "", "a bool", capability="gradient-flag"),
)

OPERATIONS: Mapping[str, Operation] = {operation.name: operation for operation in _ALL}
#: Operations that give a bool, and no tensor.
BOOLS = frozenset(name for name, op in OPERATIONS.items() if op.shape == "a bool")
RANDOM: frozenset[str] = frozenset(o.name for o in _ALL if o.random)
#: Operations so costly, or random, that no compiler runs them again on its own.
COSTLY = frozenset({"matmul", "linear", "conv2d", "embedding", *RANDOM})
#: Operations whose result may be the same memory as their argument.
VIEWS = frozenset({"reshape", "permute_dims", "split", "stop_gradient", "raise_if", "astype"})
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
