"""Texts that the report shows: a case as it was written, and the programs, highlighted."""

import re
import textwrap
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any, NamedTuple

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
#: Lines, and together those from one with three quotes to one with the next three.
_LINES = re.compile(r"^[^\"'#\n]*(\"{3}|'{3})[\s\S]*?\1.*\n?|.*\n|.+", re.MULTILINE)

_DOCSTRING = re.compile(r'\A\s*"""(.+?)\s*(?:"""|\n)')


class Source(NamedTuple):
    """A text as HTML, or why there is none."""

    html: Markup = Markup()
    missing: str = ""


def python(text: str) -> Markup:
    """A Python program as highlighted HTML.

    Lines are highlighted one by one and cached, since programs of an adapter repeat most of them. Only
    triple-quoted strings need more than their line.
    """
    return Markup("".join(_python(lines[0]) for lines in _LINES.finditer(text)).strip("\n"))


@lru_cache(maxsize=65536)
def _python(text: str) -> str:
    return _html(_PYTHON.get_tokens(text))


def yaml(text: str) -> Markup:
    """A text of YAML as highlighted HTML."""
    return Markup(_html(_YAML.get_tokens(text)).strip("\n"))


def program(folder: Path, relative: str) -> Source:
    """The program at a path relative to a folder, and never outside it."""
    text, missing = _read(folder, relative)
    return Source(missing=missing) if missing else Source(python(text))


def docstring(folder: Path, relative: str) -> str:
    """The first line of the docstring of such a program; empty if there is none."""
    match = _DOCSTRING.match(_read(folder, relative)[0])
    return match[1].rstrip(".") if match else ""


def _read(folder: Path, relative: str) -> tuple[str, str]:
    """The text of a program, or why there is none."""
    if not relative:
        return "", "no program was written"
    file = (folder / relative).resolve()
    if not file.is_relative_to(folder.resolve()):
        return "", f"{relative} lies outside the reports' folder"
    try:
        if file.stat().st_size > _LARGEST:
            return "", f"{relative} is too large to be shown"
        return file.read_text("utf-8"), ""
    except (OSError, UnicodeDecodeError) as error:
        return "", f"{relative} cannot be read: {type(error).__name__}"


def case_text(where: Position) -> Source:
    """The YAML of the case that starts at a position: its key and all that is indented below it."""
    try:
        lines = _lines(Path(where.file))
    except (OSError, UnicodeDecodeError) as error:
        return Source(missing=f"{where.file} cannot be read: {type(error).__name__}")
    if not 1 <= where.line <= len(lines):
        return Source(missing=f"{where.file} has no line {where.line}")
    return Source(yaml(cut(lines, where.line)))


def cut(lines: tuple[str, ...], line: int) -> str:
    """The block that starts at a line (from 1), dedented; what follows it is left out."""
    first, *rest = lines[line - 1 :]
    indent = len(first) - len(first.lstrip())
    inside = takewhile(lambda t: not t.strip() or len(t) - len(t.lstrip()) > indent, rest)
    return textwrap.dedent("\n".join([first, *inside])).rstrip() + "\n"


@lru_cache(maxsize=64)
def _lines(file: Path) -> tuple[str, ...]:
    return tuple(file.read_text("utf-8").splitlines())


@lru_cache(maxsize=256)
def _tag(kind: Any) -> str:
    return next((tag for parent, tag in _TAGS if kind in parent), "")


def _html(tokens: Iterable[tuple[Any, str]]) -> str:
    """Tokens as escaped HTML; neighbours of one kind on a line share a tag, plain text has none."""
    html = []
    for tag, alike in groupby(tokens, key=lambda token: _tag(token[0])):
        text = str(escape("".join(text for _, text in alike)))
        html.append(_tagged(tag, text) if tag else text)
    return "".join(html)


def _tagged(tag: str, html: str) -> str:
    """HTML with each of its lines in a tag of its own, so that the HTML can be split into lines."""
    lines = (f"<{tag}>{line}</{tag}>" if line else "" for line in html.split("\n"))
    return "\n".join(lines)
