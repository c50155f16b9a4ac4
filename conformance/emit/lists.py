"""What a case numbers (`w1`, `w2`, …), as lists (`ws`) and loops in programs.

A case names each of its parameters. A program that read eight of them one by one would have a function
with eight arguments, where a user has a list. Which parameters are in a list is decided from the case;
their names are replaced in the lines of a forward pass once these are written and rolled into loops.

An emitter writes the lines of every iteration of a `repeat`. Where they are equal, but for the tensors
that the case numbers (`w$i`), they become one `for` over these tensors. Iterations that assign different
names (`p$i`) stay as they are, since each of these names may be read later.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from conformance.emit.code import MARK
from conformance.model.case import Case, leaves, node_makes, walk

#: The fewest tensors that make a list, and repetitions for which a loop is easier to read.
FEWEST = 3
#: Procedures whose `run` takes parameters out of lists.
PROCEDURES = ("backward", "train")
_NUMBERED = re.compile(r"([A-Za-z_]+)([1-9]\d*)$")
_HELD = re.compile(r"( *)self\.(\w+) = (\w+)")
#: Function definitions. A closure reads a loop variable when it is called, not when it is defined.
_LATER = re.compile(r"\blambda\b|\bdef\b")
#: An assignment to a numbered name: indentation, letters of the name, number, right-hand side.
_MADE = re.compile(r"( *)([A-Za-z_]+?)(\d+) = (.+)")


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
    a region takes under their own name are not; nor those that a module captures or, unless `captured`,
    any region.
    """
    if case.procedure.kind not in PROCEDURES or case.procedure.between or case.hooks:
        return {}
    kept = {name for node in walk(case.program) for name in node_makes(node)}
    for region in case.regions():
        kept.update(leaves(region.takes), leaves(region.kwargs), region.kwargs)
        kept.update(() if captured and region.granularity != "module" else region.captured())
    in_lists: dict[str, Item] = {}
    stems = {array.name: (_NUMBERED.match(array.name) or ["", ""])[1] for array in case.parameters}
    for stem, group in groupby(case.parameters, lambda array: stems[array.name]):
        arrays = list(group)
        names = [array.name for array in arrays]
        alike = len({(a.shape, a.dtype, a.gradient, a.fill) for a in arrays}) == 1
        in_order = names == [f"{stem}{number}" for number in range(1, len(names) + 1)]
        name = list_name(stem)
        free = {stem, name, "i"}.isdisjoint(taken) and kept.isdisjoint(names)
        if len(arrays) >= FEWEST and alike and in_order and free:
            in_lists |= {n: Item(name, place, len(names)) for place, n in enumerate(names)}
    return in_lists


def arguments(names: Iterable[str], held: Mapping[str, Item]) -> list[str]:
    """Names with each list of parameters in place of those that it holds."""
    return list(dict.fromkeys(held[name].name if name in held else name for name in names))


def replaced(lines: Sequence[str], held: Mapping[str, Item], container: str) -> list[str]:
    """Lines with parameters read out of their lists: `w1, w2, w3` as `ws` where that is all of a list,
    `(w1, w2)` after `for` as `ws[:2]`, and any other `w1` as `ws[0]`. `container` is what a module holds
    a list in (`nn.ParameterList({})`)."""
    if not held:
        return list(lines)
    one = rf"(?<![\w.\"'])(?:self\.)?(?:{'|'.join(sorted(held, key=len, reverse=True))})\b"
    several = rf"{one}(?:, {one})*"
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
        if text.lstrip().startswith("for "):
            text = re.sub(rf"\(({several})\)", lambda m: _series(m[1], held) or m[0], text)
        text = re.sub(several, lambda m: _each(m[0], held), text)
        made.append(text + (mark[0] if mark else ""))
    return made


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
    if made is None or made.group(1, 2) != first.group(1, 2):
        return False
    if first[3].startswith("0") or made[3] != str(int(first[3]) + after):
        return False
    ways = [m[4].replace(f'"{m[2]}{m[3]}"', '"\0"') for m in (first, made)]
    return ways[0] == ways[1]
