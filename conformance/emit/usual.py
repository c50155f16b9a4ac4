"""Operations that most frameworks spell the same way, as a start for an adapter's table.

    operations = {
        **usual.OPERATORS,
        **usual.functions("mx"),
        **usual.calls(HELPERS),
        "relu": "nn.relu({x})",
        ...
    }

Later entries, for what the framework spells differently, replace these. Operations in `CALLS` a program
defines from others, with the framework's own `sin`, `cos`, `sum`, …; an adapter whose framework has a
form of its own (`jax.lax.cond`) writes the operation itself, which takes precedence.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import msgspec

from conformance.emit.part import Call, Writer
from conformance.model.case import Option, Statement

#: Functions that programs define, as format strings: those of `CALLS`, over operations, and others.
HELPERS = msgspec.yaml.decode(
    Path(__file__).with_name("helpers.yaml").read_bytes(), type=dict[str, dict[str, str]]
)
_TEXTS = HELPERS["of_operations"]
#: The calls of these functions, as format strings over arguments and options.
CALLS: Mapping[str, str] = {
    **{op: f"{op}({{x}})" for op in _TEXTS},
    "loop_sin": "loop_sin({x}, {times})",
    "counted_sin": "counted_sin({x}, {seen})",
    "raise_in_rerun": "raise_in_rerun({x}, {flag})",
}
#: Global lists that a run empties at its start, by the operation that appends to them.
LISTS: Mapping[str, str] = {
    "noted_sin": "noted",
    "unsteady_sin": "calls",
    "switched_sin": "switch",
    "doubled_sin": "inside",
    "raise_in_rerun": "runs",
}
#: The global list in which regions leave results; a run empties it, too.
LEFT = "left"
#: Operations written as Python operators, and those that call functions which a program defines itself.
OPERATORS: Mapping[str, str] = {
    "add": "{a} + {b}",
    "subtract": "{a} - {b}",
    "multiply": "{a} * {b}",
    "divide": "{a} / {b}",
    "negative": "-{x}",
    "matmul": "{a} @ {b}",
    "raise_if": "raise_if({x}, {flag})",
}
#: Calls of functions that a program defines itself, where an adapter says how (`helpers`).
_DEFINED: Mapping[str, Writer] = {
    "max_pool2d": "max_pool2d({x}, {size})",
    "avg_pool2d": "avg_pool2d({x}, {size})",
    "batch_norm": "batch_norm({x}, {gamma}, {beta}, {running_mean}, {running_var}, "
    "momentum={momentum}, eps={eps})",
    "layer_norm": "layer_norm({x}, {gamma}, {beta}, eps={eps})",
    "gelu": "gelu({x})",
    "softmax": "softmax({x}, axis={axis})",
    "rrelu": "rrelu({x}, {low}, {high})",
    "custom_sin": "custom_sin({x}, {reads})",
    "slope_of_sin": "slope_of_sin({x})",
    "accumulate_sin": "accumulate_sin({x}, {total})",
    "add_in_place": "add_in_place({a}, {b})",
}
_OF_ONE = ("abs", "cos", "exp", "log", "sin", "sqrt", "square", "tanh")


def functions(module: str) -> dict[str, str]:
    """Operations that are functions of `module` under NumPy's names, as format strings."""
    return {
        **{name: f"{module}.{name}({{x}})" for name in _OF_ONE},
        "maximum": f"{module}.maximum({{a}}, {{b}})",
        "where": f"{module}.where({{condition}}, {{a}}, {{b}})",
        "broadcast_to": f"{module}.broadcast_to({{x}}, {{shape}})",
        "cumulative_sum": f"{module}.cumsum({{x}}, axis={{axis}})",
    }


def calls(helpers: Iterable[str]) -> dict[str, Writer]:
    """The calls of an adapter's `helpers`, by operation, of those that take what the operation does."""
    defined = {**CALLS, **_DEFINED, "conv2d": partial(_conv2d, same="same=True")}
    return {op: defined[op] for op in helpers if op in defined}


def reductions(prefix: str) -> dict[str, Writer]:
    """Reductions as functions, `{prefix}sum(x, axis=0)`."""

    def function(call: Call) -> str:
        return f"{prefix}{call.op}({', '.join([call.arguments['x'], *_along(call)])})"

    return dict.fromkeys(("sum", "mean", "max"), function)


def bounds(call: Call) -> str:
    """The keywords `minval` and `maxval` of a draw, after a comma; empty where they are 0 and 1."""
    low, high = call.options["low"], call.options["high"]
    return "" if (low, high) == (0, 1) else f", minval={low}, maxval={high}"


def arrays(module: str) -> dict[str, Writer]:
    """Operations on arrays as NumPy and its like have them, dtypes and functions being in `module`."""
    return {
        "linear": "{x} @ {w}.T + {b}",
        "embedding": "{table}[{indices}]",
        "to_complex": "{a} + 1j * {b}",
        "real": f"{module}.real({{x}})",
        "imag": f"{module}.imag({{x}})",
        "concat": f"{module}.concatenate({{arrays}}, axis={{axis}})",
        "split": f"{module}.split({{x}}, {{sections}}, axis={{axis}})",
        "astype": f"{{x}}.astype({module}.{{dtype}})",
    }


def neural(module: str, functional: str) -> dict[str, Writer]:
    """Operations of frameworks whose neural ones are functions of `functional` (`F`), and whose tensors
    are detached by a method."""

    return {
        "solve": f"{module}.linalg.solve({{a}}, {{b}})",
        "conv2d": lambda call: _conv2d(call, f"{functional}.conv2d"),
        "max_pool2d": f"{functional}.max_pool2d({{x}}, {{size}})",
        "avg_pool2d": f"{functional}.avg_pool2d({{x}}, {{size}})",
        "embedding": f"{functional}.embedding({{indices}}, {{table}})",
        "relu": f"{functional}.relu({{x}})",
        "gelu": f"{functional}.gelu({{x}})",
        "rrelu": f"{functional}.rrelu({{x}}, {{low}}, {{high}}, training=True)",
        "to_complex": f"{module}.complex({{a}}, {{b}})",
        "real": f"{module}.real({{x}})",
        "imag": f"{module}.imag({{x}})",
        "stop_gradient": "{x}.detach()",
    }


def stride_and_padding(options: Mapping[str, Option], same: str = 'padding="same"') -> list[str]:
    """The keywords of a convolution, unless they have their usual values, 1 and no padding."""
    words = [] if options["stride"] == 1 else [f"stride={options['stride']}"]
    return words + ([same] if options["padding"] == "same" else [])


def _conv2d(call: Call, function: str = "conv2d", same: str = 'padding="same"') -> str:
    words = [call.arguments["x"], call.arguments["w"], *stride_and_padding(call.options, same)]
    return f"{function}({', '.join(words)})"


def sliced(call: Call) -> str:
    """A part along an axis, as an index: `x[:, 1:3]`."""
    start, stop, step, axis = (call.options[name] for name in ("start", "stop", "step", "axis"))
    assert isinstance(axis, int)
    until = "" if stop is None else stop
    part = f"{start or ''}:{until}" + ("" if step == 1 else f":{step}")
    along = [":"] * axis if axis >= 0 else ["..."]
    after = [":"] * (-axis - 1) if axis < 0 else []
    return f"{call.arguments['x']}[{', '.join([*along, part, *after])}]"


def reduced(call: Call, *, axis: str = "axis", keepdims: str = "keepdims") -> str:
    """A reduction as a method call, `x.sum(axis=0)`; `axis` and `keepdims` are the keywords' names."""
    return f"{call.arguments['x']}.{call.op}({', '.join(_along(call, axis, keepdims))})"


def _along(call: Call, axis: str = "axis", keepdims: str = "keepdims") -> list[str]:
    words = [] if call.options["axis"] is None else [f"{axis}={call.options['axis']}"]
    return words + ([f"{keepdims}=True"] if call.options["keepdims"] else [])


def helper(op: str, written: Callable[..., str], statement: Statement) -> str:
    """The functions that a program defines for an operation. `written` is `Body.written`, which returns
    an operation as a Python expression; `statement` is the first that has the operation."""
    text, sine = _TEXTS[op], written("sin", x="x")
    words = {n: written(n, x="x") for n in ("sin", "sum", "cos") if f"{{{n}}}" in text}
    if op == "unsteady_sin":  # what it computes from its second call on
        turned = written("permute_dims", x="x", axes=(1, 0))
        changed = {
            "values": written("add", a="x", b="x"),
            "shape": written("concat", arrays="[x, x]", axis=0),
            "dtype": written("astype", x="x", dtype="float64"),
            "operations": sine,
            "product": written("matmul", a="x", b=f"({written('matmul', a=turned, b='x')})"),
        }
        words["then"] = written("sin", x=changed[str(statement.options["then"])])
    elif op == "counted_sin":
        words["multiple"] = written("sin", x=written("multiply", a="x", b="float(len(seen))"))
    elif op == "doubled_sin":
        words["doubled"] = written("add", a=sine, b=sine)
    return text.format(**words)
