"""Operations that a program defines from others, in the same way for every framework.

Each uses the framework's own `sin`, `cos`, `sum`, …; an adapter whose framework has a form of its own
(`jax.lax.cond`) emits the operation itself, which takes precedence. `written` is `Body.written`,
which returns an operation with its arguments and options as a Python expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from conformance.model.case import Statement

Written = Callable[..., str]
Helper = Callable[[Written, Statement], str]


def noted_sin(written: Written, statement: Statement) -> str:
    """A function that appends to a global list whenever it runs: a side effect."""
    return f"""
    noted = []


    def noted_sin(x):
        noted.append("sin")
        return {written("sin", x="x")}
    """


def loop_sin(written: Written, statement: Statement) -> str:
    """A function with a Python loop."""
    return f"""
    def loop_sin(x, times):
        for _ in range(times):
            x = {written("sin", x="x")}
        return x
    """


def branch_sin(written: Written, statement: Statement) -> str:
    """A function with a Python `if` on a tensor's value."""
    return f"""
    def branch_sin(x):
        if {written("sum", x="x")} > 0:
            return {written("sin", x="x")}
        return {written("cos", x="x")}
    """


def unsteady_sin(written: Written, statement: Statement) -> str:
    """A function that computes something else from its second call on."""
    product = f"({written('matmul', a=written('permute_dims', x='x', axes=(1, 0)), b='x')})"
    then = {
        "values": written("sin", x=written("add", a="x", b="x")),
        "shape": written("sin", x=written("concat", arrays="[x, x]", axis=0)),
        "dtype": written("sin", x=written("astype", x="x", dtype="float64")),
        "operations": written("sin", x=written("sin", x="x")),
        "product": written("sin", x=written("matmul", a="x", b=product)),
    }
    return f"""
    calls = []


    def unsteady_sin(x):
        calls.append("sin")
        if len(calls) > 1:
            return {then[str(statement.options["then"])]}
        return {written("sin", x="x")}
    """


def counted_sin(written: Written, statement: Statement) -> str:
    """A function that appends to a list that it is given, and goes by the list's length."""
    multiple = written("multiply", a="x", b="float(len(seen))")
    return f"""
    def counted_sin(x, seen):
        seen.append(1)
        return {written("sin", x=multiple)}
    """


def switched_sin(written: Written, statement: Statement) -> str:
    """A function that reads a global switch, as a layer reads whether it is in training."""
    return f"""
    switch = []


    def switched_sin(x):
        if switch:
            return {written("cos", x="x")}
        return {written("sin", x="x")}
    """


def doubled_sin(written: Written, statement: Statement) -> str:
    """A function that goes by whether it runs in a context, and two such contexts."""
    sine = written("sin", x="x")
    return f"""
    inside = []


    class Doubled:
        def __enter__(self):
            inside.append("doubled")

        def __exit__(self, *error):
            inside.pop()


    def contexts():
        return Doubled(), Doubled()


    def doubled_sin(x):
        if inside:
            return {written("add", a=sine, b=sine)}
        return {sine}
    """


def raise_in_rerun(written: Written, statement: Statement) -> str:
    """A function that raises when it is called again, that is in the rerun."""
    return f"""
    calls = []


    def raise_in_rerun(x, flag):
        calls.append("sin")
        if flag and len(calls) > 1:
            raise ValueError("raise_in_rerun")
        return {written("sin", x="x")}
    """


#: For each operation, what writes the functions that a program defines for it.
HELPERS: Mapping[str, Helper] = {
    "noted_sin": noted_sin,
    "loop_sin": loop_sin,
    "branch_sin": branch_sin,
    "unsteady_sin": unsteady_sin,
    "counted_sin": counted_sin,
    "switched_sin": switched_sin,
    "doubled_sin": doubled_sin,
    "raise_in_rerun": raise_in_rerun,
}
#: The calls of these functions, as format strings over arguments and options.
CALLS: Mapping[str, str] = {
    "noted_sin": "noted_sin({x})",
    "loop_sin": "loop_sin({x}, {times})",
    "branch_sin": "branch_sin({x})",
    "unsteady_sin": "unsteady_sin({x})",
    "counted_sin": "counted_sin({x}, {seen})",
    "switched_sin": "switched_sin({x})",
    "doubled_sin": "doubled_sin({x})",
    "raise_in_rerun": "raise_in_rerun({x}, {flag})",
}
#: Global lists that a run empties at its start, by the operation that appends to them.
LISTS: Mapping[str, str] = {
    "noted_sin": "noted",
    "unsteady_sin": "calls",
    "switched_sin": "switch",
    "doubled_sin": "inside",
    "raise_in_rerun": "calls",
}
