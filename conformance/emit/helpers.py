"""Operations that a program composes of others, written the same way for every framework.

Each is made of the framework's own `sin`, `cos`, `sum`, …; an adapter whose framework has a form of
its own (`jax.lax.cond`) emits the operation itself, and what it says goes before these. `written`
stands for `Emitter.written`: an operation with its arguments and options, as an expression.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from conformance.model.case import Statement

Written = Callable[..., str]
Helper = Callable[[Written, Statement], str]


def noted_sin(written: Written, statement: Statement) -> str:
    """A function that leaves a note, in a list outside of the program, whenever it runs."""
    return f"""
    noted = []


    def noted_sin(x):
        noted.append("sin")
        return {written("sin", x="x")}
    """


def loop_sin(written: Written, statement: Statement) -> str:
    """A loop of Python's."""
    return f"""
    def loop_sin(x, times):
        for _ in range(times):
            x = {written("sin", x="x")}
        return x
    """


def branch_sin(written: Written, statement: Statement) -> str:
    """A conditional of Python's, on a tensor."""
    return f"""
    def branch_sin(x):
        if {written("sum", x="x")} > 0:
            return {written("sin", x="x")}
        return {written("cos", x="x")}
    """


def unsteady_sin(written: Written, statement: Statement) -> str:
    """A function that does something else when it is called again."""
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


def raise_in_rerun(written: Written, statement: Statement) -> str:
    """A function that fails when it is called again."""
    return f"""
    calls = []


    def raise_in_rerun(x, flag):
        calls.append("sin")
        if flag and len(calls) > 1:
            raise ValueError("raise_in_rerun")
        return {written("sin", x="x")}
    """


#: For each operation the functions that a program defines for it.
HELPERS: Mapping[str, Helper] = {
    "noted_sin": noted_sin,
    "loop_sin": loop_sin,
    "branch_sin": branch_sin,
    "unsteady_sin": unsteady_sin,
    "raise_in_rerun": raise_in_rerun,
}
#: The calls of these functions, as format strings over arguments and options.
CALLS: Mapping[str, str] = {
    "noted_sin": "noted_sin({x})",
    "loop_sin": "loop_sin({x}, {times})",
    "branch_sin": "branch_sin({x})",
    "unsteady_sin": "unsteady_sin({x})",
    "raise_in_rerun": "raise_in_rerun({x}, {flag})",
}
#: Lists outside of the program that a run starts with empty, by the operation that writes to them.
LISTS: Mapping[str, str] = {
    "noted_sin": "noted",
    "unsteady_sin": "calls",
    "raise_in_rerun": "calls",
}
