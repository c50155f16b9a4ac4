"""Which lines of a program are one statement of it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache


@lru_cache(maxsize=8)
def starts(text: str) -> Mapping[int, int]:
    """The first line of the innermost Python statement that each line of a program belongs to."""
    found: dict[int, int] = {}
    for node in ast.walk(ast.parse(text)):  # outer ones before inner ones
        if isinstance(node, ast.stmt):
            found |= dict.fromkeys(range(node.lineno, (node.end_lineno or 0) + 1), node.lineno)
    return found
