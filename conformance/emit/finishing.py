"""From what an emitter has written to a program: formatted by ruff, with its source map."""

from __future__ import annotations

import ast
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from ruff.__main__ import find_ruff_bin

from conformance.drivers import contract
from conformance.emit.code import MARK
from conformance.model.program import Site

K = TypeVar("K")
#: The greatest width of a program's lines.
LINE_LENGTH = 88
#: Time limit of ruff for a batch of programs, in seconds; it usually takes less than one.
_RUFF_LIMIT = 120.0


@dataclass(frozen=True)
class Text:
    """A finished program: its text, its source map (by line number from 1), and its notes for the
    observer."""

    text: str
    lines: Mapping[int, Site]
    notes: frozenset[str] = frozenset()


def finish(drafts: Mapping[K, contract.Draft]) -> dict[K, Text]:
    """Format drafts as one batch with ruff: remove unused imports, sort imports, format, remove marks.

    Raises `RuntimeError` with ruff's own words where a draft is not valid Python.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = {key: Path(folder) / f"p{i}.py" for i, key in enumerate(drafts)}
        for key, code in drafts.items():
            files[key].write_text("\n".join(code.lines) + "\n", "utf-8")
        if files:
            _ruff(folder, "check", "--fix", "--quiet", "--select", "F401,I001", "--exit-zero")
            _ruff(folder, "format", "--quiet")
        return {
            key: replace(
                _unmarked(files[key].read_text("utf-8"), draft.sites),
                notes=frozenset(getattr(draft, "notes", ())),
            )
            for key, draft in drafts.items()
        }


def _ruff(folder: str, *arguments: str) -> None:
    """Run ruff with nothing left to the defaults that releases change: the width, and the Python that
    programs are for. Stable styles of ruff differ in nothing that programs contain; a test holds the
    oldest and the newest release that the suite takes to that."""
    line = f"--config=line-length={LINE_LENGTH}"
    options = ["--isolated", "--no-cache", "--target-version", "py311", line]
    command = [find_ruff_bin(), *arguments, *options, "."]
    # Run elsewhere, since ruff would sort modules in the current folder as the program's own.
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=_RUFF_LIMIT,
    )
    if done.returncode:
        raise RuntimeError(f"ruff could not format an emitted program:\n{done.stderr.strip()}")


def _unmarked(text: str, sites: Sequence[Site]) -> Text:
    tree = ast.parse(text)  # the marks are comments: without them the lines are the same
    statements = tuple(_statements(tree))
    # A docstring, which holds the case's title, may contain the same text.
    docstrings = {
        number
        for node in statements
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    marks: dict[int, Site] = {}
    plain = text.splitlines()
    for row, line in enumerate(plain, 1):
        mark = MARK.search(line) if row not in docstrings else None
        if mark:
            marks[row] = sites[int(mark[1])]
            plain[row - 1] = line[: mark.start()].rstrip()
    lines: dict[int, Site] = {}
    for node in statements:
        if isinstance(node, ast.FunctionDef):
            end = max(node.lineno, node.body[0].lineno - 1)
            for number in range(node.lineno, end + 1):
                if number in marks and marks[number].kind == "region":
                    lines[node.lineno] = marks[number]
        elif not hasattr(node, "body"):
            end = node.end_lineno or node.lineno
            for number in range(node.lineno, end + 1):
                if number in marks and marks[number].kind != "region":
                    lines |= dict.fromkeys(range(node.lineno, end + 1), marks[number])
    return Text("\n".join(plain) + "\n", lines)


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements in a module, outer ones before those in them; nothing of their expressions."""
    for block in ("body", "handlers", "orelse", "finalbody", "cases"):
        for part in getattr(node, block, ()):
            if isinstance(part, ast.stmt):
                yield part
            yield from _statements(part)
