"""Makes a minimal reproducer from an emitted program: unneeded code is removed, and it fails at the end.

The end asserts that one value of the plain run equals that of the recomputed run; or lets the
recomputed run raise; or asserts how often a region's function runs.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from conformance.emit.finishing import Text
from conformance.emit.reasons import formatted

#: For each key of the dict that `run` returns, the words that a report uses.
WORDS = {
    "gradients": "gradient",
    "again": "second gradient",
    "parameters": "parameter",
    "state": "state",
    "losses": "loss",
    "outputs": "output",
}


@dataclass(frozen=True)
class Compared:
    """One value in what `run` returns, by its keys: `("gradients", "w")`, `("outputs", 1)`.

    `rtol` and `atol` are the tolerances of the comparison. `missing`: one of the two runs lacks it.
    """

    path: tuple[str | int, ...]
    rtol: float
    atol: float
    missing: bool = False

    @property
    def words(self) -> str:
        """The value as a report names it: "gradient of w"."""
        first, *rest = self.path
        named = " ".join(f"of {key}" if isinstance(key, str) else str(key + 1) for key in rest)
        return f"{WORDS[str(first)]} {named}".strip()


@dataclass(frozen=True)
class Raised:
    """The recomputed run raises an error; or, if `wanted` names a type, should raise it and does not."""

    wanted: str = ""


@dataclass(frozen=True)
class Counted:
    """A region's function runs another number of times, in forward and backward together, than any of
    the `expected` ones."""

    region: str
    expected: tuple[int, ...]


Ending = Compared | Raised | Counted | None


def standalone(text: Text, ending: Ending) -> str:
    """An emitted program without code that only the suite needs, ending so that it shows the defect."""
    lines = text.text.splitlines()
    dropped: set[int] = set()
    counters: dict[int, str] = {}
    for node in ast.parse(text.text).body:
        span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or isinstance(node, ast.If):
            dropped |= set(span)
    if isinstance(ending, Counted):
        for number, site in text.lines.items():
            if site.kind == "region" and site.region == ending.region and site.path != "plain":
                counters[number] = site.region
    kept: list[str] = []
    for number, line in enumerate(lines, 1):
        if number in dropped:
            continue
        kept.append(line)
        if number in counters:
            kept.append(" " * (len(line) - len(line.lstrip()) + 4) + "calls.append(1)")
    program = "\n".join(kept) + "\n\n" + _end(ending)
    if isinstance(ending, Compared):
        program = _only(program, str(ending.path[0]))
    if " as np\n" not in program:
        program = f"import numpy as np\n{program}"  # removed later if unused
    if counters:
        program = _after_imports(program, "calls = []")
    return formatted(program)


def _end(ending: Ending) -> str:
    if isinstance(ending, Compared):
        key = "".join(f"[{part!r}]" for part in ending.path)
        words = ending.words
        program = f"""
expected = run(plain){key}
observed = run(recomputed){key}
print("{words}, without recompute:", expected)
print("{words}, with recompute:", observed)
"""
        if ending.missing:
            return program + "assert (observed is None) == (expected is None)\n"
        return f"""{program}

def array(value):
    return np.array(value.tolist() if hasattr(value, "tolist") else value)


close = {{"rtol": {ending.rtol!r}, "atol": {ending.atol!r}}}
assert np.allclose(array(observed), array(expected), **close)
"""
    if isinstance(ending, Counted):
        right = " or ".join(map(str, ending.expected))
        return f"""
run(recomputed)
print("the function runs", len(calls), "times, but should run {right}")
assert len(calls) in {ending.expected!r}
"""
    if isinstance(ending, Raised) and ending.wanted:
        return f"""
try:
    run(recomputed)
except {ending.wanted}:
    raised = True
else:
    raised = False
print("raises {ending.wanted}:", raised)
assert raised
"""
    return """
print("without recompute:", run(plain))
print("with recompute:", run(recomputed))
"""


def _only(program: str, key: str) -> str:
    """A program whose `run` returns only the entry `key` of its dict."""
    for node in ast.walk(ast.parse(program)):
        if not isinstance(node, ast.FunctionDef) or node.name != "run":
            continue
        last = node.body[-1]
        if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Dict):
            continue
        for name, value in zip(last.value.keys, last.value.values, strict=True):
            if isinstance(name, ast.Constant) and name.value == key:
                lines = program.splitlines()
                lines[last.lineno - 1 : last.end_lineno] = [f"    return {ast.unparse(value)}"]
                return "\n".join(lines).replace(f"){[key]!r}", ")") + "\n"
    return program


def _after_imports(program: str, line: str) -> str:
    body = ast.parse(program).body
    last = max(n.end_lineno or 0 for n in body if isinstance(n, ast.Import | ast.ImportFrom))
    lines = program.splitlines()
    return "\n".join([*lines[:last], line, *lines[last:]]) + "\n"
