"""Writes the iterations of a `repeat` as a loop, and tensors that are made alike as a list.

An emitter writes the lines of every iteration. Where they are equal, or differ only in which of the
program's own tensors they read, they become one `for` over these tensors. Iterations that assign
different names (`p$i`) stay as they are, since each of these names may be read later.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from conformance.emit.code import MARK
from conformance.emit.lists import list_name

#: The fewest repetitions for which a loop is easier to read.
FEWEST = 3
_NAME = re.compile(r"(?<![\w.\"'])(?:self\.)?[A-Za-z_]\w*")
#: Function definitions. A closure reads a loop variable when it is called, not when it is defined.
_LATER = re.compile(r"\blambda\b|\bdef\b")


@dataclass(frozen=True)
class Iteration:
    """The lines of one iteration. `shape` is their text with each tensor's name replaced by a NUL
    character, `names` are these names in order."""

    lines: tuple[str, ...]
    shape: tuple[str, ...]
    names: tuple[str, ...]


def iteration(lines: Sequence[str], tensors: Collection[str]) -> Iteration:
    """Lines as an iteration; `tensors` are the names that may differ between iterations."""
    names: list[str] = []

    def hide(name: re.Match[str]) -> str:
        if name[0].removeprefix("self.") not in tensors:
            return name[0]
        names.append(name[0])
        return "\0"

    shape = tuple(_NAME.sub(hide, MARK.sub("", line)) for line in lines)
    return Iteration(tuple(lines), shape, tuple(names))


def loop(iterations: Sequence[Iteration], taken: Collection[str]) -> list[str] | None:
    """The lines of a loop; `None` if there is none that is equivalent. `taken` are names that loop
    variables must not have."""
    first = iterations[0]
    if any(other.shape != first.shape for other in iterations):
        return None
    by_position = list(zip(*(other.names for other in iterations), strict=True))
    varying = list(dict.fromkeys(p for p in by_position if len(set(p)) > 1))
    if varying and any(_LATER.search(text) for text in first.shape):
        return None
    variables: dict[tuple[str, ...], str] = {}
    for tensors in varying:
        name = _stem(tensors)
        if name in taken or name in variables.values():
            name += "_i"
        if name in taken or name in variables.values():
            return None
        variables[tensors] = name
    positions_left = iter(by_position)
    body: list[str] = []
    for line, shape in zip(first.lines, first.shape, strict=True):
        read = [next(positions_left) for _ in range(shape.count("\0"))]
        assigned = shape.partition(" = ")[0].count("\0") if " = " in shape else 0
        if any(p in variables for p in read[:assigned]):
            return None  # assigning to a loop variable does not assign to the tensor's name
        parts = shape.split("\0")
        words = [variables.get(p, p[0]) for p in read]
        text = parts[0] + "".join(w + part for w, part in zip(words, parts[1:], strict=True))
        mark = MARK.search(line)
        body.append("    " + text + (mark[0] if mark else ""))
    indent = first.lines[0][: -len(first.lines[0].lstrip())]
    return [f"{indent}{_head(variables, len(iterations))}", *body]


def _stem(names: Sequence[str]) -> str:
    return re.sub(r"[\d_]+$", "", names[0].removeprefix("self.")) or "value"


def _head(variables: dict[tuple[str, ...], str], often: int) -> str:
    if not variables:
        return f"for _ in range({often}):"
    given = [f"({', '.join(tensors)})" for tensors in variables]
    listed = given[0] if len(given) == 1 else f"zip({', '.join(given)})"
    return f"for {', '.join(variables.values())} in {listed}:"


#: An assignment to a numbered name: indentation, letters of the name, number, right-hand side.
_MADE = re.compile(r"( *)([A-Za-z_]+?)(\d+) = (.+)")


def series(lines: Sequence[str], taken: Collection[str]) -> tuple[list[str], dict[str, str]]:
    """Lines that make tensors, with equal right-hand sides for `w1`, `w2`, … combined into one list.

    Returns the lines, and for the name of each tensor now in a list the text of that list's entries in
    the dict that `inputs` returns (the same text for all of one list). `taken` are names in use.
    """
    written: list[str] = []
    entries: dict[str, str] = {}
    at = 0
    while at < len(lines):
        often, first = 1, _MADE.fullmatch(lines[at])
        while first and at + often < len(lines) and _follows(first, lines[at + often], often):
            often += 1
        stem = first[2] if first else ""
        named = list_name(stem)
        free = {stem, named, "i"}.isdisjoint(taken)
        if first is None or first[3] != "1" or often < FEWEST or not free:
            written.append(lines[at])
            at += 1
            continue
        how = first[4].replace(f'"{stem}1"', f'f"{stem}{{i}}"')
        each = "_ in range({0})" if how == first[4] else "i in range(1, {1})"
        loop_over = each.format(often, often + 1)
        written.append(f"{first[1]}{named} = [{how} for {loop_over}]")
        one = stem if named != stem else "value"
        listed = f'**{{f"{stem}{{i}}": {one} for i, {one} in enumerate({named}, 1)}}'
        entries |= {f"{stem}{n}": listed for n in range(1, often + 1)}
        at += often
    return written, entries


def _follows(first: re.Match[str], line: str, after: int) -> bool:
    """Whether a line assigns the same right-hand side as `first` to the name numbered `after` higher."""
    made = _MADE.fullmatch(line)
    if made is None or (made[1], made[2]) != (first[1], first[2]):
        return False
    if first[3].startswith("0") or made[3] != str(int(first[3]) + after):
        return False
    ways = [m[4].replace(f'"{m[2]}{m[3]}"', '"\0"') for m in (first, made)]
    return ways[0] == ways[1]
