"""Operations that a program defines from others, in the same way for every framework.

Each uses the framework's own `sin`, `cos`, `sum`, …; an adapter whose framework has a form of its own
(`jax.lax.cond`) writes the operation itself, which takes precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from conformance.model.case import Statement

#: `Body.written`, which returns an operation with its arguments and options as a Python expression.
Written = Callable[..., str]
_TEXTS: Mapping[str, str] = {
    # A side effect: it appends to a global list whenever it runs.
    "noted_sin": """
    noted = []


    def noted_sin(x):
        noted.append("sin")
        return {sin}
    """,
    "loop_sin": """
    def loop_sin(x, times):
        for _ in range(times):
            x = {sin}
        return x
    """,
    # A Python `if` on a tensor's value.
    "branch_sin": """
    def branch_sin(x):
        if {sum} > 0:
            return {sin}
        return {cos}
    """,
    # It computes something else from its second call on.
    "unsteady_sin": """
    calls = []


    def unsteady_sin(x):
        calls.append("sin")
        if len(calls) > 1:
            return {then}
        return {sin}
    """,
    # It appends to a list that it is given, and goes by the list's length.
    "counted_sin": """
    def counted_sin(x, seen):
        seen.append(1)
        return {multiple}
    """,
    # It reads a global switch, as a layer reads whether it is in training.
    "switched_sin": """
    switch = []


    def switched_sin(x):
        if switch:
            return {cos}
        return {sin}
    """,
    # It goes by whether it runs in a context; beside it are two such contexts.
    "doubled_sin": """
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
            return {doubled}
        return {sin}
    """,
    # It raises when it is called again, that is in the rerun.
    "raise_in_rerun": """
    calls = []


    def raise_in_rerun(x, flag):
        calls.append("sin")
        if flag and len(calls) > 1:
            raise ValueError("raise_in_rerun")
        return {sin}
    """,
}


def helper(op: str, written: Written, statement: Statement) -> str:
    """The functions that a program defines for an operation; `statement` is the first that has it."""
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
    "raise_in_rerun": "calls",
}
