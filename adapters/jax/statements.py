"""Which lines of a program are one statement of it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import lru_cache

from conformance.model.program import Program, Site


def outermost(program: Program, stack: Iterable[int]) -> tuple[Site, tuple[int, ...]] | None:
    """The statement that the program's lines on a stack lead to, and the lines around it with its own
    first one. `stack` begins with the outermost line; `None` where no line is a statement's.

    The outermost statement, because what a library function traced for one line it reuses for others.
    """
    around: list[int] = []
    for line in stack:
        site = program.lines.get(line)
        if site is not None and site.kind == "statement":
            return site, (*around, starts(program.text)[line])
        around.append(line)
    return None


@lru_cache(maxsize=8)
def starts(text: str) -> Mapping[int, int]:
    """The first line of the innermost Python statement that each line of a program belongs to."""
    first_lines: dict[int, int] = {}
    for node in ast.walk(ast.parse(text)):  # outer ones before inner ones
        if isinstance(node, ast.stmt):
            first_lines |= dict.fromkeys(
                range(node.lineno, (node.end_lineno or 0) + 1), node.lineno
            )
    return first_lines
