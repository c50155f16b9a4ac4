"""Numbered parameters (`w1`, `w2`, …), held in a list in programs (`ws`).

A case names each of its parameters. A program that read eight of them one by one would have a function
with eight arguments, where a user has a list. Which parameters are in a list is decided from the case;
their names are replaced in the lines of a forward pass once these are written and rolled into loops.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from conformance.emit.code import MARK
from conformance.model.case import Case, leaves, node_makes, walk

#: The fewest parameters that make a list.
FEWEST = 3
#: Procedures whose `run` takes parameters out of lists.
PROCEDURES = ("backward", "train")
_NUMBERED = re.compile(r"([A-Za-z_]+)([1-9]\d*)")
_HELD = re.compile(r"( *)self\.(\w+) = (\w+)")


@dataclass(frozen=True)
class Item:
    """A parameter's place: the name of its list, its position from 0, and the length of the list."""

    name: str
    position: int
    length: int

    def __str__(self) -> str:
        return f"{self.name}[{self.position}]"


def list_name(stem: str) -> str:
    """The name of a list of `w1`, `w2`, …: `ws`; that of `wa1`, `wa2`, … is `wa`."""
    return f"{stem}s" if len(stem) == 1 else stem


def items(case: Case, taken: Collection[str], *, captured: bool) -> dict[str, Item]:
    """The parameters of a case that are in lists, by name; `taken` are names that no list may have.

    Parameters are in a list if they follow each other, numbered from 1, and are made alike. Those that
    a region takes under their own name are not; nor, unless `captured`, those that a region captures.
    """
    if case.procedure.kind not in PROCEDURES or case.procedure.between or case.hooks:
        return {}
    regions = case.regions()
    kept = {name for node in walk(case.program) for name in node_makes(node)}
    kept |= {n for r in regions for tree in (r.takes, r.kwargs) for n in leaves(tree)}
    kept |= {key for region in regions for key in region.kwargs}
    kept |= set() if captured else {name for region in regions for name in region.captured()}
    in_lists: dict[str, Item] = {}
    for stem, group in groupby(case.parameters, lambda array: _stem(array.name)):
        arrays = list(group)
        names = [array.name for array in arrays]
        alike = len({(a.shape, a.dtype, a.gradient, a.fill) for a in arrays}) == 1
        in_order = names == [f"{stem}{number}" for number in range(1, len(names) + 1)]
        free = {stem, list_name(stem), "i"}.isdisjoint(taken)
        if len(arrays) >= FEWEST and alike and in_order and free and kept.isdisjoint(names):
            name = list_name(stem)
            in_lists |= {n: Item(name, place, len(names)) for place, n in enumerate(names)}
    return in_lists


def _stem(name: str) -> str:
    numbered = _NUMBERED.fullmatch(name)
    return numbered[1] if numbered else ""


def arguments(names: Iterable[str], held: Mapping[str, Item]) -> list[str]:
    """Names with each list of parameters in place of those that it holds."""
    return list(dict.fromkeys(held[name].name if name in held else name for name in names))


def replaced(lines: Sequence[str], held: Mapping[str, Item], container: str) -> list[str]:
    """Lines with parameters read out of their lists: `w1, w2, w3` as `ws` where that is all of a list,
    `(w1, w2)` after `for` as `ws[:2]`, and any other `w1` as `ws[0]`. `container` is what a module holds
    a list in (`nn.ParameterList({})`)."""
    if not held:
        return list(lines)
    made: list[str] = []
    for line in lines:
        mark = MARK.search(line)
        text = line[: mark.start()] if mark else line
        attribute = _HELD.fullmatch(text)
        if attribute and attribute[2] == attribute[3] in held:
            item = held[attribute[2]]
            if item.position == 0:
                made.append(f"{attribute[1]}self.{item.name} = {container.format(item.name)}")
            continue
        made.append(_replaced(text, held) + (mark[0] if mark else ""))
    return made


def _replaced(text: str, held: Mapping[str, Item]) -> str:
    one = rf"(?<![\w.\"'])(?:self\.)?(?:{'|'.join(sorted(held, key=len, reverse=True))})\b"
    several = rf"{one}(?:, {one})*"
    if text.lstrip().startswith("for "):
        text = re.sub(rf"\(({several})\)", lambda m: _series(m[1], held) or m[0], text)
    return re.sub(several, lambda m: _each(m[0], held), text)


def _each(text: str, held: Mapping[str, Item]) -> str:
    """Names one after the other: those that are all of a list as the list."""
    words, parts = text.split(", "), []
    at = 0
    while at < len(words):
        item = held[words[at].removeprefix("self.")]
        run = ", ".join(words[at : at + item.length])
        owner = "self." if words[at].startswith("self.") else ""
        whole = item.position == 0 and _series(run, held) == f"{owner}{item.name}"
        parts.append(f"{owner}{item.name if whole else item}")
        at += item.length if whole else 1
    return ", ".join(parts)


def _series(text: str, held: Mapping[str, Item]) -> str:
    """Names that follow each other in one list, as the list or a part of it; empty where they do not."""
    words = text.split(", ")
    read = [held[word.removeprefix("self.")] for word in words]
    first, last = read[0], read[-1]
    in_order = [item.position for item in read] == list(range(first.position, last.position + 1))
    owners = {word.startswith("self.") for word in words}
    if not in_order or len({item.name for item in read}) > 1 or len(owners) > 1:
        return ""
    name = f"self.{first.name}" if owners.pop() else first.name
    start = str(first.position or "")
    end = "" if last.position + 1 == last.length else str(last.position + 1)
    return f"{name}[{start}:{end}]" if start or end else name
