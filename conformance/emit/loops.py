"""Writes the iterations of a `repeat` as a loop, and tensors that are made alike as a list.

An emitter writes the lines of every iteration. Where they are equal, but for the tensors that the case
numbers (`w$i`), they become one `for` over these tensors. Iterations that assign different names (`p$i`)
stay as they are, since each of these names may be read later.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from conformance.emit.code import MARK
from conformance.emit.lists import list_name
from conformance.model.case import NUMBER, Repeat, node_makes, node_reads, numbered, walk

#: The fewest repetitions for which a loop is easier to read.
FEWEST = 3
#: Function definitions. A closure reads a loop variable when it is called, not when it is defined.
_LATER = re.compile(r"\blambda\b|\bdef\b")


def in_turn(repeat: Repeat, known: Collection[str]) -> list[list[str]]:
    """Of each known name that iterations read by their number (`w$i`) and do not assign: those of the
    iterations, in order."""
    nodes = list(walk(repeat.body))
    made = {name for node in nodes for name in node_makes(node)}
    read = dict.fromkeys(n for node in nodes for n in node_reads(node) if NUMBER in n)
    named = [[numbered(n, i) for i in repeat.numbers] for n in read if n not in made]
    return [names for names in named if set(names) <= set(known)]


def loop(
    iterations: Sequence[Sequence[str]], series: Sequence[Sequence[str]], taken: Collection[str]
) -> list[str] | None:
    """The lines of a loop, given the lines of each iteration; `None` if none is equivalent.

    `series` are tensors that the iterations read in turn, one for each iteration. `taken` are names that
    loop variables must not have.
    """
    variables: list[str] = []
    for tensors in series:
        stem = re.sub(r"[\d_]+$", "", tensors[0]) or "value"
        free = [n for n in (stem, f"{stem}_i") if n not in taken and n not in variables]
        if not free:
            return None
        variables.append(free[0])
    written = [
        _written(lines, dict(zip((tensors[number] for tensors in series), variables, strict=True)))
        for number, lines in enumerate(iterations)
    ]
    body, read = written[0]
    texts = [[MARK.sub("", line) for line in lines] for lines, _ in written]
    alike = all(text == texts[0] for text in texts)
    if not alike or (read and any(map(_LATER.search, texts[0]))):
        return None
    indent = body[0][: -len(body[0].lstrip())]
    given = [f"({', '.join(places[variable] for _, places in written)})" for variable in read]
    listed = f"zip({', '.join(given)})" if len(given) > 1 else "".join(given)
    head = f"{', '.join(read) or '_'} in {listed or f'range({len(iterations)})'}"
    return [f"{indent}for {head}:", *(f"    {line}" for line in body)]


def _written(lines: Sequence[str], words: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Lines with variables in place of tensors, and where each variable's tensor is read: by its name or
    as an attribute of `self`. Other words for a tensor that is read in both ways stay as they are."""
    read: dict[str, str] = {}

    def variable(name: re.Match[str]) -> str:
        chosen = words[name[1]]
        return chosen if read.setdefault(chosen, name[0]) == name[0] else name[0]

    if not words:
        return list(lines), read
    names = re.compile(rf"(?<![\w.\"'])(?:self\.)?({'|'.join(words)})\b")
    return [names.sub(variable, line) for line in lines], read


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
