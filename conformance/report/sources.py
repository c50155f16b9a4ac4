"""Texts that the report shows: a case as it was written, and the programs, highlighted."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape
from pygments.lexers import PythonLexer, YamlLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String

from conformance.model.case import Position

#: Short tags, because a report holds a thousand programs; the style sheet gives them their colours.
_TAGS: tuple[tuple[Any, str], ...] = (
    (Comment, "i"),
    (String.Doc, "i"),
    (String, "q"),
    (Number, "u"),
    (Keyword, "b"),
    (Operator.Word, "b"),
    (Name.Function, "em"),
    (Name.Tag, "em"),
)
_LARGEST = 400_000
_PYTHON, _YAML = PythonLexer(stripnl=False), YamlLexer(stripnl=False)
#: Whole lines, from one with three quotes to one with the next three.
_THREE_QUOTES = re.compile(r"^[^\"'#\n]*(\"{3}|'{3})[\s\S]*?\1.*\n?", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A text as HTML, or why there is none."""

    html: Markup
    missing: str = ""


def python(text: str) -> Markup:
    """A Python program as highlighted HTML.

    Lines are highlighted one by one and cached, since programs of an adapter repeat most of them. Only
    triple-quoted strings need more than their line.
    """
    html: list[str] = []
    done = 0
    for match in _THREE_QUOTES.finditer(text):
        html += map(_python, text[done : match.start()].splitlines(keepends=True))
        html.append(_python(match[0]))
        done = match.end()
    html += map(_python, text[done:].splitlines(keepends=True))
    return Markup("".join(html).strip("\n"))


@lru_cache(maxsize=65536)
def _python(text: str) -> str:
    return _html(_PYTHON.get_tokens(text))


def yaml(text: str) -> Markup:
    """A text of YAML as highlighted HTML."""
    return Markup(_html(_YAML.get_tokens(text)).strip("\n"))


def program(folder: Path, relative: str) -> Source:
    """The program at a path relative to a folder, and never outside it."""
    if not relative:
        return Source(Markup(""), "no program was written")
    file = (folder / relative).resolve()
    if not file.is_relative_to(folder.resolve()):
        return Source(Markup(""), f"{relative} lies outside the reports' folder")
    try:
        if file.stat().st_size > _LARGEST:
            return Source(Markup(""), f"{relative} is too large to be shown")
        return Source(python(file.read_text("utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        return Source(Markup(""), f"{relative} cannot be read: {type(error).__name__}")


def case_text(where: Position) -> Source:
    """The YAML of the case that starts at a position: its key and all that is indented below it."""
    try:
        lines = _lines(Path(where.file))
    except (OSError, UnicodeDecodeError) as error:
        return Source(Markup(""), f"{where.file} cannot be read: {type(error).__name__}")
    if not 1 <= where.line <= len(lines):
        return Source(Markup(""), f"{where.file} has no line {where.line}")
    return Source(yaml(cut(lines, where.line)))


def cut(lines: tuple[str, ...], line: int) -> str:
    """The block that starts at a line (from 1), dedented; what follows it is left out."""
    first = lines[line - 1]
    indent = len(first) - len(first.lstrip())
    block = [first]
    for text in lines[line:]:
        if text.strip() and len(text) - len(text.lstrip()) <= indent:
            break
        block.append(text)
    while not block[-1].strip():
        block.pop()
    return textwrap.dedent("\n".join(block)) + "\n"


@lru_cache(maxsize=64)
def _lines(file: Path) -> tuple[str, ...]:
    return tuple(file.read_text("utf-8").splitlines())


@lru_cache(maxsize=256)
def _tag(kind: Any) -> str:
    return next((tag for parent, tag in _TAGS if kind in parent), "")


def _html(tokens: Iterable[tuple[Any, str]]) -> str:
    """Tokens as escaped HTML; neighbours of one kind on a line share a tag, plain text has none."""
    parts: list[tuple[str, str]] = []
    for kind, text in tokens:
        tag = _tag(kind)
        if parts and parts[-1][0] == tag:
            parts[-1] = (tag, parts[-1][1] + text)
        else:
            parts.append((tag, text))
    html = [_tagged(tag, str(escape(text))) if tag else str(escape(text)) for tag, text in parts]
    return "".join(html)


def _tagged(tag: str, html: str) -> str:
    """HTML with each of its lines in a tag of its own, so that the HTML can be split into lines."""
    lines = (f"<{tag}>{line}</{tag}>" if line else "" for line in html.split("\n"))
    return "\n".join(lines)
