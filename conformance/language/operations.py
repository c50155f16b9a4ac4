"""The operations that a case may use: names, signatures, shapes, and the residuals of each.

What an operation computes, the function of its name in `conformance.oracle.tape` says and does.
Names are those of the Python array API standard where it has one. Tensors are written NCHW, weights
of `conv2d` OIHW, weights of `linear` (out, in). `needs` says, for the gradient with respect to an
argument, which values are needed; several alternatives where implementations legitimately
differ (relu: its output or its input). `out` is the operation's result, `mask` a value of its own
(a dropout mask, the indices of a maximum).

The same declarations say how an operation is put into a generated program (`conformance.fuzz`): which
shapes its arguments have, what its options choose among, where it may stand, and what a case with it
has to say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from typing import Literal as OneOf

_REQUIRED = object()


@dataclass(frozen=True)
class OptionSpec:
    """A keyword of an operation: its type, its default, and for `str` the allowed words.

    A generated program gives it one of the values `tried`, or what it `means`: an axis of the first
    argument, all of its axes in some `order`, a `shape`, a `wider` one that the argument is broadcast
    to, or into how many `parts` an axis is divided; only `beside` another option, or `instead` of one.
    Another value than the default may need a `capability`.
    """

    type: OneOf["int", "float", "bool", "str", "ints", "dtype"]
    default: object = _REQUIRED
    words: tuple[str, ...] = ()
    tried: tuple[Any, ...] = ()
    means: OneOf["", "axis", "order", "shape", "wider", "parts"] = ""
    beside: str = ""
    instead: str = ""
    capability: str = ""

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED


@dataclass(frozen=True)
class Operation:
    """One operation.

    `tensors` are its positional arguments; one that ends in `...` takes a list (`concat([a, b])`),
    one that ends in `?` is not a tensor. `results` is the number of results, 0 where an option says
    so. `updates` names arguments that are changed in place (running statistics), `whole` those that
    hold whole numbers, `truths` those that hold bools, `parts` those that are complex, `inverts`
    one that needs an inverse. `over` names an argument that programs write the result over,
    `within` a word of the region that it must stand in, `between` the word for what happens between
    forward and backward that changes what it computes, or for what holds around forward and not
    backward. `raises` is the error that it raises where its flag is true. `unlike` says that
    programs do something else in the rerun, and that implementations differ on it. Frameworks
    compute what is `exact` in float32 and float64 alone. Of a `joint` operation, an element of the
    result depends on more than one of the argument. The result of a `view` may share its memory
    with the argument. Of equal arguments of one that is `apart`, little but rounding errors would
    be left in its result or its gradients. Autocast has one that is `lowered` compute in low
    precision. One that `hooks` registers a hook on its argument, and returns it. One that is
    `shared` is a collective: all ranks take part in it.
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
    whole: str = ""
    truths: str = ""
    parts: str = ""
    inverts: str = ""
    over: str = ""
    within: str = ""
    between: str = ""
    raises: str = ""
    unlike: str = ""
    exact: bool = False
    joint: bool = False
    view: bool = False
    apart: bool = False
    lowered: bool = False
    hooks: bool = False
    shared: bool = False

    @cached_property
    def patterns(self) -> tuple[tuple[str, ...] | None, ...]:
        """The shapes of the arguments, as `shape` says them: `(..., in)` is `("...", "in")`, a letter
        stands for the same length everywhere, and `...` for the same axes. `None` for any shape."""
        taken, gives, _ = self.shape.partition(" give")
        if not gives:
            return (None,) * len(self.tensors)
        return tuple(tuple(re.findall(r"[^\s,]+", p)) for p in re.findall(r"\(([^)]*)\)", taken))

    @property
    def broadcasts(self) -> bool:
        """Whether its arguments broadcast against each other."""
        return self.shape.startswith(_BROADCAST)

    @property
    def elementwise(self) -> bool:
        """Whether it takes one tensor and computes each element of the result from one of it, always in
        the same way."""
        apart = self.capability or self.random or self.joint or self.parts or self.within
        alike = self.shape == "shape of x" and self.tensors == ("x",) and bool(self.needs)
        return alike and not self.options and not apart and not self.unlike

    @property
    def takes_gradient(self) -> bool:
        """Whether programs take a gradient with respect to its argument, which has to require one."""
        return self.capability == "gradient-inside"

    @property
    def takes_number(self) -> bool:
        """Whether one of its arguments may be a number."""
        return self.shape == _BROADCAST

    def signature(self) -> str:
        """The operation as a reader would write it: `conv2d(x, w, stride=1, padding='valid')`."""
        words = [f"[{t[:-3]}, …]" if t.endswith("...") else t.rstrip("?") for t in self.tensors]
        for name, spec in self.options.items():
            words.append(f"{name}=…" if spec.required else f"{name}={spec.default!r}")
        return f"{self.name}({', '.join(words)})"


_SHAPE, _SIZE = OptionSpec("ints", means="shape"), OptionSpec("int", tried=(2,))
_FIRST, _LAST = OptionSpec("int", 0, means="axis"), OptionSpec("int", -1, means="axis")
_AXIS, _SEED = (
    OptionSpec("int", None, means="axis"),
    OptionSpec("int", None, tried=(5,), capability="seeded-random"),
)
_OFF, _EPS = OptionSpec("bool", False, beside="axis"), OptionSpec("float", 1e-5, tried=(1e-3,))
_RANGE: dict[str, Any] = {
    "low": OptionSpec("float", 0.0, tried=(0.5,)),
    "high": OptionSpec("float", 1.0, tried=(1.5,)),
}
_DRAWN = {"shape": _SHAPE, **_RANGE}
_PADDING = OptionSpec("str", "valid", ("valid", "same"), instead="stride")
_RULE = OptionSpec("str", "reverse", ("reverse", "forward"), capability="forward-rule")
_CHANGES = OptionSpec("str", words=("values", "shape", "dtype", "operations", "product"))
_SLOPES: dict[str, Any] = {
    "low": OptionSpec("float", 0.125, tried=(0.25,)),
    "high": OptionSpec("float", 1 / 3, tried=(0.5,)),
}
_ELEMENTS: dict[str, Any] = {
    "start": OptionSpec("int", 0, tried=(1,)),
    "stop": OptionSpec("int", None, tried=(3,)),
    "step": OptionSpec("int", 1, tried=(2,)),
}
_SOLVED = "a: a out | out mask | a out mask, b: a | mask"
_NORMED = "x: x gamma mask, gamma: x mask, beta:"
_BROADCAST = "a and b broadcast against each other"
_POOLED = "(n, c, h, w) gives (n, c, h // size, w // size)"
_REDUCED = "x without that axis"
_DIVIDED = "x with its length along axis divided by sections"
_LOOKED_UP = "(...) and (rows, d) give (..., d)"
_TOGETHER = "(...) and (...) give (...)"
_CHOSEN = "(...), (...) and (...) give (...)"
_WIDER = "shape, the last axes of which x has, with a length of 1 where it is repeated"
_CUT = "the elements of x from start to stop along axis, each step-th"
_ADDED = "(n, ...) and (...) give (n, ...)"
_ONE = "one number, ()"
_ALL_ROWS = "the rows of all ranks one after the other"
_OWN_ROWS = "the rank's part of the rows of the sum, as many on each"
_UNLIKE = {"unlike": "The rerun computes something else than the forward pass."}
_RAISES, _EXACT = {"raises": "ValueError"}, {"exact": True}
_VIEW, _APART, _LOWERED = {"view": True}, {"apart": True}, {"lowered": True}
_SHARED = {"shared": True, "joint": True}
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
    told: Mapping[str, Any] | None = None,
    **options: OptionSpec,
) -> Operation:
    """An operation. `needs` lists alternatives by argument: `a: b, b: a b | out b`. `told` is what else
    there is to say of it."""
    given = (part.partition(":") for part in needs.split(",") if part)
    by_argument = {
        argument.strip(): tuple(frozenset(words.split()) for words in alternatives.split("|"))
        for argument, _, alternatives in given
    }
    names, changed = tuple(tensors.split()), tuple(updates.split())
    return Operation(
        name,
        names,
        shape,
        options,
        by_argument,
        results,
        random,
        changed,
        capability,
        **(told or {}),
    )


_ALL = (
    _op("add", "a b", "a:, b:", _BROADCAST),
    _op("subtract", "a b", "a:, b:", _BROADCAST, told=_APART),
    _op("multiply", "a b", "a: b, b: a", _BROADCAST),
    _op("divide", "a b", "a: b, b: a b | out b", _BROADCAST, told=_APART),
    _op("negative", "x", "x:"),
    _op(
        "matmul",
        "a b",
        "a: b, b: a",
        "(..., n, k) and (k, m) give (..., n, m)",
        told=_LOWERED,
    ),
    _op(
        "solve",
        "a b",
        _SOLVED,
        "(n, n) and (n, k) give (n, k)",
        capability="solve",
        told=_EXACT | _APART | {"inverts": "a"},
    ),
    _op(
        "linear",
        "x w b",
        "x: w, w: x, b:",
        "(..., n, in), (out, in) and (out,) give (..., n, out)",
        told=_LOWERED,
    ),
    _op(
        "conv2d",
        "x w",
        "x: w, w: x",
        _CONVOLVED,
        told=_LOWERED,
        stride=OptionSpec("int", 1, tried=(2,)),
        padding=_PADDING,
    ),
    _op("max_pool2d", "x", "x: x mask | x | mask", _POOLED, size=_SIZE),
    _op("avg_pool2d", "x", "x: | x", _POOLED, size=_SIZE),
    _op(
        "batch_norm",
        "x gamma beta running_mean running_var",
        _NORMED,
        "(n, c, h, w), (c,), (c,), (c,) and (c,) give (n, c, h, w)",
        updates="running_mean running_var",
        capability="batch-norm",
        momentum=OptionSpec("float", 0.1, tried=(0.25,)),
        eps=_EPS,
    ),
    _op("layer_norm", "x gamma beta", _NORMED, "(..., d), (d,) and (d,) give (..., d)", eps=_EPS),
    _op("embedding", "indices table", "table: indices", _LOOKED_UP, told={"whole": "indices"}),
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
    _op("maximum", "a b", "a: a b | mask, b: a b | mask", f"{_BROADCAST}; neither is a number"),
    _op(
        "where",
        "condition a b",
        "a: condition, b: condition",
        _CHOSEN,
        told={"truths": "condition"},
    ),
    _op("max", "x", "x: x out | mask | x | x mask", _REDUCED, axis=_LAST, keepdims=_OFF),
    _op("cumulative_sum", "x", "x: | x", axis=_LAST),
    _op("softmax", "x", "x: out | x", axis=_LAST),
    _op(
        "dropout",
        "x",
        "x: mask",
        random=True,
        p=OptionSpec("float", 0.5, tried=(0.25,)),
        seed=_SEED,
    ),
    _op("sum", "x", "x:", _REDUCED, axis=_AXIS, keepdims=_OFF),
    _op("mean", "x", "x:", _REDUCED, axis=_AXIS, keepdims=_OFF),
    _op("reshape", "x", "x:", "shape, with one -1 allowed", told=_VIEW, shape=_SHAPE),
    _op(
        "permute_dims",
        "x",
        "x:",
        "the axes of x in the new order",
        told=_VIEW,
        axes=OptionSpec("ints", means="order"),
    ),
    _op("broadcast_to", "x", "x:", _WIDER, told=_VIEW, shape=OptionSpec("ints", means="wider")),
    _op("slice", "x", "x:", _CUT, told=_VIEW, **_ELEMENTS, axis=_FIRST),
    _op("concat", "arrays...", "arrays:", "the lengths along axis added up", axis=_FIRST),
    _op(
        "split",
        "x",
        "x:",
        _DIVIDED,
        told=_VIEW,
        results=0,
        sections=OptionSpec("int", means="parts"),
        axis=_FIRST,
    ),
    _op("astype", "x", "x:", told=_VIEW, dtype=OptionSpec("dtype")),
    _op(
        "to_default",
        "x",
        "x:",
        capability="default-dtype",
        told={"between": "default-float64", **_VIEW},
    ),
    _op("to_complex", "a b", "a:, b:", _TOGETHER, capability="complex", told=_EXACT),
    _op("real", "x", "x:", capability="complex", told={"parts": "x", **_VIEW}),
    _op("imag", "x", "x:", capability="complex", told={"parts": "x", **_VIEW}),
    _op("stop_gradient", "x", told=_VIEW),
    _op("uniform", "", "", "shape", random=True, **_DRAWN, seed=_SEED),
    _op("uniform_from", "generator?", "", "shape", random=True, **_DRAWN),
    _op("numpy_uniform", "", "", "shape", random=True, capability="numpy-random", **_DRAWN),
    _op("python_uniform", "", "", _ONE, random=True, capability="python-random", **_RANGE),
    _op("rrelu", "x", "x: x mask | mask", random=True, capability="rrelu", told=_EXACT, **_SLOPES),
    _op("sin_or_cos", "x flag?", "x: x"),
    _op("branch_sin", "x", "x: x", told={"joint": True}),
    _op("loop_sin", "x", "x: x mask", times=OptionSpec("int", tried=(1, 2, 3))),
    _op("custom_sin", "x", "x: x", reads=OptionSpec("int", 1, tried=(2,)), rule=_RULE),
    _op("asking_sin", "x", "x: x", capability="gradient-flag"),
    _op("slope_of_sin", "x", "x: x", capability="gradient-inside"),
    _op("noted_sin", "x", "x: x"),
    _op("unsteady_sin", "x", "x: x", capability="unsteady", told=_UNLIKE, then=_CHANGES),
    _op("counted_sin", "x seen?", "x: x", capability="list-changed", told=_UNLIKE),
    _op("switched_sin", "x", "x: x", told={"between": "switch"}),
    _op("doubled_sin", "x", "x: x", told={"within": "contexts"}),
    _op("raise_in_rerun", "x flag?", "x: x", capability="unsteady", told=_UNLIKE),
    _op("accumulate_sin", "x total", "x: x", _ADDED, updates="total", capability="accumulate"),
    _op("add_in_place", "a b", "a:, b:", _TOGETHER, capability="in-place", told={"over": "a"}),
    _op("raise_if", "x flag?", "x:", capability="raise", told={**_RAISES, **_VIEW}),
    _op(
        "hooked",
        "x",
        "x:",
        capability="hook-on-value",
        told={"hooks": True},
        scale=OptionSpec("float", 2.0, tried=(0.5, 3.0)),
    ),
    _op("all_reduce", "x", "x:", capability="ranks", told=_SHARED),
    _op("all_gather", "x", "x:", _ALL_ROWS, capability="ranks", told=_SHARED),
    _op("reduce_scatter", "x", "x:", _OWN_ROWS, capability="ranks", told=_SHARED),
    _op("is_unwrapped_by", "region?", "", "a bool", capability="wrapped"),
    _op("hides_variables_of", "region?", "", "a bool", capability="wrapped"),
    _op("asks_gradient", "x", "", "a bool", capability="gradient-flag"),
)

OPERATIONS: Mapping[str, Operation] = {operation.name: operation for operation in _ALL}
#: Operations that give a bool, and no tensor.
BOOLS = frozenset(name for name, op in OPERATIONS.items() if op.shape == "a bool")
RANDOM: frozenset[str] = frozenset(o.name for o in _ALL if o.random)
#: Operations that draw from the framework's global generator, and those that draw from others.
GLOBAL = frozenset({"dropout", "uniform", "rrelu"})
OTHERS = RANDOM - GLOBAL
#: Operations that draw a tensor of their own, in float32.
DRAWS = frozenset(o.name for o in _ALL if o.random and "x" not in o.tensors)
#: Operations so costly, or random, that no compiler runs them again on its own.
COSTLY = frozenset({"matmul", "linear", "conv2d", "embedding", *RANDOM})
#: Operations whose gradient is a product with a number where one of their arguments is a number.
SCALING = frozenset({"multiply", "divide"})
#: Operations whose result may be the same memory as their argument.
VIEWS = frozenset(o.name for o in _ALL if o.view and not o.parts)
#: Operations that cast to their option `dtype`, which the loader gives to one that has none.
CASTS = frozenset({"astype", "to_default"})
#: Operations whose result may have the same row several times.
REPEATING = frozenset({"embedding", "broadcast_to"})
#: Operations whose gradient comes to those elements alone that equal the result, which compilers compute
#: once more to compare it: rounded otherwise, no element may be equal.
COMPARED = frozenset({"max"})
#: Operations whose gradient is written in Python, and given zeros where there is no gradient.
WRITTEN = frozenset({"custom_sin", "asking_sin"})
#: Arguments that a tape saves of an operation for less than their values: for the shape or the dtype.
SAVED: Mapping[str, frozenset[str]] = {
    "avg_pool2d": frozenset({"x"}),
    "to_complex": frozenset({"a", "b"}),
}
#: Operations that give the same if one number is added to all elements of x.
CENTRED = frozenset({"layer_norm", "batch_norm", "softmax"})
#: Operations with a side effect: they append to a global list when they run.
NOTED: frozenset[str] = frozenset({"noted_sin"})
#: Operations in which all ranks take part.
COLLECTIVES = frozenset(o.name for o in _ALL if o.shared)
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
    "expand": "broadcast_to",
    "select": "where",
}


def saved_more(options: Mapping[str, object]) -> int:
    """How many values more `unsteady_sin` saves when it is called again, by what it does `then`."""
    return {"operations": 1, "product": 4}.get(str(options.get("then")), 0)
