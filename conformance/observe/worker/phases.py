"""Detecting the start of a phase of a program at full Python speed.

`sys.settrace` slows down all Python code in the process, the framework's included. Where only phase
starts matter, `run` is recompiled from the program's text with a call before each line that starts
one. It still uses the program's own globals.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from conformance.model.program import Program

#: The global name of the function that `run` calls where a phase starts. No program has this name.
_NAME = "__phase_starts__"


@contextmanager
def announced(
    program: Program, module: ModuleType, on_phase: Callable[[str, FrameType], None]
) -> Iterator[Callable[..., Any]]:
    """The program's `run`, which calls `on_phase` with the label of each phase (`forward`, `backward`)
    before the line that starts it, and with the frame of that line; so do the program's other functions
    inside the `with`, where phases start in them.
    """
    starts = {(line, site.label) for line, site in program.lines.items() if site.kind == "phase"}
    marked = _marked(program.file, program.text, frozenset(starts))
    functions = {name: _with_code(getattr(module, name), code) for name, code in marked.items()}
    run = functions.pop("run")
    replaced = {name: getattr(module, name) for name in functions}
    vars(module).update(functions)
    setattr(module, _NAME, lambda label: on_phase(label, sys._getframe(1)))
    try:
        yield run
    finally:
        delattr(module, _NAME)
        vars(module).update(replaced)


def _with_code(function: Any, code: CodeType) -> FunctionType:
    """A copy of a function of the program that has other code."""
    copy = FunctionType(code, function.__globals__, function.__name__, function.__defaults__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


@lru_cache(maxsize=8)
def _marked(file: str, text: str, starts: frozenset[tuple[int, str]]) -> dict[str, CodeType]:
    """The code, by name, of `run` and of each other function in which a phase starts, with the calls of
    `_NAME` inserted. `starts` are (line, label) of the phases."""
    tree = ast.parse(text, file)
    start_lines = {line for line, _ in starts}
    names = {"run"} | {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and not start_lines.isdisjoint(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    }
    code = compile(_Marker(dict(starts)).visit(tree), file, "exec", dont_inherit=True)
    return {c.co_name: c for c in code.co_consts if isinstance(c, CodeType) and c.co_name in names}


class _Marker(ast.NodeTransformer):
    """Inserts a call of `_NAME` before each line, given by its number, that starts a phase."""

    def __init__(self, starts: dict[int, str]) -> None:
        self._starts = starts

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, [s for statement in block for s in self._with_call(statement)])
        return node

    def _with_call(self, statement: ast.stmt) -> list[ast.stmt]:
        label = self._starts.get(statement.lineno)
        if label is None or isinstance(statement, ast.FunctionDef):
            return [statement]
        called = ast.Call(ast.Name(_NAME, ast.Load()), [ast.Constant(label)], [])
        call = ast.copy_location(ast.Expr(called), statement)
        call.end_lineno, call.end_col_offset = statement.lineno, statement.col_offset
        return [ast.fix_missing_locations(call), statement]
