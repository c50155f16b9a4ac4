"""Lines that repeat, written as a loop: what a case says n times, a program says once.

A program is written node by node, each node a group of lines. Groups that follow each other and differ
in nothing, or in which of the program's own tensors they read, become one `for`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

#: As often a group of lines has to be there for a loop to be easier to read.
FEWEST = 3
#: The longest round that is looked for, in groups of lines.
LONGEST = 12
_NAME = re.compile(r"(?<![\w.\"'])(?:self\.)?[A-Za-z_]\w*")
#: What makes a function, which would read a loop's variable when it is called, not where it is made.
_LATER = re.compile(r"\blambda\b|\bdef\b")
_MARK = re.compile(r"  # pylint: s\d+$")


@dataclass(frozen=True)
class Group:
    """The lines of one node. `shape` is their text without the names of tensors, which are `names`."""

    lines: tuple[str, ...]
    shape: tuple[str, ...]
    names: tuple[str, ...]


def group(lines: Sequence[str], tensors: Collection[str]) -> Group:
    """A node's lines as a group; `tensors` are the names that may differ from round to round."""
    names: list[str] = []

    def hide(found: re.Match[str]) -> str:
        if found[0].removeprefix("self.") not in tensors:
            return found[0]
        names.append(found[0])
        return "\0"

    shape = tuple(_NAME.sub(hide, _MARK.sub("", line)) for line in lines)
    return Group(tuple(lines), shape, tuple(names))


def rounds(groups: Sequence[Group], start: int) -> tuple[int, int]:
    """The length of a round that starts at `start`, in groups, and how often it is there: those that
    cover the most, and of these the shortest. Length 0 where nothing repeats often enough."""
    best, covered = (0, 0), 0
    for length in range(1, min(LONGEST, (len(groups) - start) // FEWEST) + 1):
        often = 1
        while _same(groups, start, start + often * length, length):
            often += 1
        if often >= FEWEST and often * length > covered:
            best, covered = (length, often), often * length
    return best


def _same(groups: Sequence[Group], first: int, other: int, length: int) -> bool:
    if other + length > len(groups):
        return False
    return all(groups[first + i].shape == groups[other + i].shape for i in range(length))


def loop(every: Sequence[Sequence[Group]], taken: Collection[str]) -> list[str] | None:
    """The lines of a loop over rounds of equal shape, each round's groups; `taken` are names that the
    loop's variables must not have. `None` where a loop would not do the same."""
    by_place = list(zip(*(_names(groups) for groups in every), strict=True))
    varying = list(dict.fromkeys(p for p in by_place if len(set(p)) > 1))
    texts = [line for each in every[0] for line in each.shape]
    if varying and any(_LATER.search(text) for text in texts):
        return None
    variables: dict[tuple[str, ...], str] = {}
    for places in varying:
        name = _stem(places)
        if name in taken or name in variables.values():
            name += "_i"
        if name in taken or name in variables.values():
            return None
        variables[places] = name
    places_left = iter(by_place)
    body: list[str] = []
    for each in every[0]:
        for line, shape in zip(each.lines, each.shape, strict=True):
            given = [next(places_left) for _ in range(shape.count("\0"))]
            made = shape.partition(" = ")[0].count("\0") if " = " in shape else 0
            if any(p in variables for p in given[:made]):
                return None  # what the loop's variable is given anew, its tensor is not
            parts = shape.split("\0")
            words = [variables.get(p, p[0]) for p in given]
            text = parts[0] + "".join(w + part for w, part in zip(words, parts[1:], strict=True))
            mark = _MARK.search(line)
            body.append("    " + text + (mark[0] if mark else ""))
    indent = every[0][0].lines[0][: -len(every[0][0].lines[0].lstrip())]
    return [f"{indent}{_head(variables, len(every))}", *body]


def _names(groups: Sequence[Group]) -> tuple[str, ...]:
    return tuple(name for each in groups for name in each.names)


def _stem(names: Sequence[str]) -> str:
    return re.sub(r"[\d_]+$", "", names[0].removeprefix("self.")) or "value"


def _head(variables: dict[tuple[str, ...], str], often: int) -> str:
    if not variables:
        return f"for _ in range({often}):"
    given = [f"({', '.join(places)})" for places in variables]
    listed = given[0] if len(given) == 1 else f"zip({', '.join(given)})"
    return f"for {', '.join(variables.values())} in {listed}:"


#: A line that makes a tensor and names it: its indentation, its name's letters and number, how.
_MADE = re.compile(r"( *)([A-Za-z_]+?)(\d+) = (.+)")


def series(lines: Sequence[str], taken: Collection[str]) -> tuple[list[str], dict[str, str]]:
    """Lines that make tensors, with those that make `w1`, `w2`, … alike written as one list.

    Returns the lines, and by the name of each tensor that is in a list now the list's entries in the
    dict that `inputs` returns (one text for all of one list). `taken` are names that are not free.
    """
    written: list[str] = []
    entries: dict[str, str] = {}
    at = 0
    while at < len(lines):
        often, first = 1, _MADE.fullmatch(lines[at])
        while first and at + often < len(lines) and _follows(first, lines[at + often], often):
            often += 1
        stem = first[2] if first else ""
        free = {stem, f"{stem}s", "i"}.isdisjoint(taken)
        if first is None or first[3] != "1" or often < FEWEST or not free:
            written.append(lines[at])
            at += 1
            continue
        how = first[4].replace(f'"{stem}1"', f'f"{stem}{{i}}"')
        each = "_ in range({0})" if how == first[4] else "i in range(1, {1})"
        loop_over = each.format(often, often + 1)
        written.append(f"{first[1]}{stem}s = [{how} for {loop_over}]")
        listed = f'**{{f"{stem}{{i}}": {stem} for i, {stem} in enumerate({stem}s, 1)}}'
        entries |= {f"{stem}{n}": listed for n in range(1, often + 1)}
        at += often
    return written, entries


def _follows(first: re.Match[str], line: str, after: int) -> bool:
    """Whether a line makes the tensor `after` places behind that of the first line, in the same way."""
    found = _MADE.fullmatch(line)
    if found is None or (found[1], found[2]) != (first[1], first[2]):
        return False
    if first[3].startswith("0") or found[3] != str(int(first[3]) + after):
        return False
    own = [m[4].replace(f'"{m[2]}{m[3]}"', '"\0"') for m in (first, found)]
    return own[0] == own[1]
