"""What most frameworks write alike: an adapter's table of operations begins with it.

    operations = {
        **usual.OPERATORS,
        **usual.functions("mx"),
        "relu": "nn.relu({x})",
        ...
    }

What a framework writes otherwise stands behind it, and takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.emit.emitter import Call

#: Operations that are operators of Python's, and what every program can define.
OPERATORS: Mapping[str, str] = {
    "add": "{a} + {b}",
    "subtract": "{a} - {b}",
    "multiply": "{a} * {b}",
    "divide": "{a} / {b}",
    "negative": "-{x}",
    "matmul": "{a} @ {b}",
    "raise_if": "raise_if({x}, {flag})",
}
_OF_ONE = ("abs", "cos", "exp", "log", "sin", "sqrt", "square", "tanh")


def functions(module: str) -> dict[str, str]:
    """Operations that are functions of a module, as NumPy names them."""
    return {
        **{name: f"{module}.{name}({{x}})" for name in _OF_ONE},
        "maximum": f"{module}.maximum({{a}}, {{b}})",
        "cumulative_sum": f"{module}.cumsum({{x}}, axis={{axis}})",
    }


def reduced(call: Call, *, axis: str = "axis", keepdims: str = "keepdims") -> str:
    """A reduction as a method of the array, with the names of its keywords: `x.sum(axis=0)`."""
    words = [] if call.options["axis"] is None else [f"{axis}={call.options['axis']}"]
    words += [f"{keepdims}=True"] if call.options["keepdims"] else []
    return f"{call.arguments['x']}.{call.op}({', '.join(words)})"
