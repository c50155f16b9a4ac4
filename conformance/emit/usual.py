"""Operations that most frameworks spell the same way, as a start for an adapter's table.

    operations = {
        **usual.OPERATORS,
        **usual.functions("mx"),
        "relu": "nn.relu({x})",
        ...
    }

Later entries, for what the framework spells differently, replace these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conformance.emit.emitter import Call

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
_OF_ONE = ("abs", "cos", "exp", "log", "sin", "sqrt", "square", "tanh")


def functions(module: str) -> dict[str, str]:
    """Operations that are functions of `module` under NumPy's names, as format strings."""
    return {
        **{name: f"{module}.{name}({{x}})" for name in _OF_ONE},
        "maximum": f"{module}.maximum({{a}}, {{b}})",
        "cumulative_sum": f"{module}.cumsum({{x}}, axis={{axis}})",
    }


def reduced(call: Call, *, axis: str = "axis", keepdims: str = "keepdims") -> str:
    """A reduction as a method call, `x.sum(axis=0)`; `axis` and `keepdims` are the keywords' names."""
    words = [] if call.options["axis"] is None else [f"{axis}={call.options['axis']}"]
    words += [f"{keepdims}=True"] if call.options["keepdims"] else []
    return f"{call.arguments['x']}.{call.op}({', '.join(words)})"
