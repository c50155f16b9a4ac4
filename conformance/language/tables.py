"""The tensors that several cases of a file start from, named once at its top.

    tensors:
      x: {shape: [3, 4], normal: 0.5}
    cases:
      one:
        inputs: [x, flag: {value: true}]

The tensors that a case names are copied into it; their places in the table are kept for errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from conformance.errors import CaseError, nearest
from conformance.language.spec import MAX_COPIES
from conformance.language.spec_errors import described
from conformance.language.yaml_marks import Marked
from conformance.model.case import NUMBER

SECTIONS = ("inputs", "parameters", "state")
Path = tuple[object, ...]


@dataclass(frozen=True)
class Table:
    """The tensors of a file's `tensors` by name, and where each stands; `used` by a case so far."""

    tensors: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, Path] = field(default_factory=dict)
    used: set[Path] = field(default_factory=set)

    def refuse_unused(self, marked: Marked) -> None:
        """Raises `CaseError` for a tensor that no case names: nothing else would look at it."""
        for name, place in self.places.items():
            if place not in self.used:
                raise CaseError(
                    f"no case names the tensor {name!r}",
                    where=marked.key(place),
                    hint="name it (`inputs: x`), or leave it out",
                )


def read_table(marked: Marked) -> Table:
    """The table of a file, numbered tensors one by one. Raises `CaseError`."""
    given = marked.value.get("tensors", {})
    if not isinstance(given, dict):
        raise CaseError(
            f"found {described(given)}, expected a mapping of tensors by name",
            where=marked.at(("tensors",)),
        )
    tensors: dict[str, Any] = {}
    places: dict[str, Path] = {}
    for key, model in given.items():
        place = ("tensors", key)
        if not isinstance(model, dict):
            raise CaseError(f"found {described(model)}, expected a mapping", where=marked.at(place))
        times = model.get("repeat")
        if times is not None and (type(times) is not int or not 1 <= times <= MAX_COPIES):
            raise CaseError(
                f"found {described(times)}, expected a number from 1 to {MAX_COPIES}",
                where=marked.at((*place, "repeat")),
            )
        alone = {word: value for word, value in model.items() if word != "repeat"}
        numbers = [None] if times is None else range(1, times + 1)
        for number in numbers:
            name = key if number is None else key.replace(NUMBER, str(number))
            if name in tensors:
                raise CaseError(f"the name {name!r} is taken already", where=marked.key(place))
            tensors[name], places[name] = alone, place
    return Table(tensors, places)


def with_tensors(marked: Marked, path: Path, raw: Any, table: Table) -> tuple[Marked, Any]:
    """A case with the tensors of the table that it names written into it, and where these really stand.

    Raises `CaseError` for a name that the table does not have.
    """
    if not isinstance(raw, dict):
        return marked, raw
    case, moved = dict(raw), dict(marked.moved)
    for section in SECTIONS:
        given = raw.get(section)
        if not isinstance(given, str | list):
            continue
        here = (*path, section)
        tensors: dict[str, Any] = {}
        for item in _items(marked, here, given, table):
            if item.name in tensors:
                message = f"the name {item.name!r} is taken already"
                raise CaseError(message, where=marked.key(item.named))
            tensors[item.name] = item.tensor
            moved[(*here, item.name)] = item.written
        case[section] = tensors
    return replace(marked, moved=moved), case


@dataclass(frozen=True)
class _Item:
    """A tensor of a section: where the case names it, and where it is written."""

    name: str
    tensor: Any
    named: Path
    written: Path


def _items(marked: Marked, here: Path, given: str | list[Any], table: Table) -> Iterator[_Item]:
    """The tensors of a section that is no mapping."""
    for i, item in enumerate([given] if isinstance(given, str) else given):
        place = (*here, i) if isinstance(given, list) else here
        if isinstance(item, str):
            if item not in table.tensors:
                raise CaseError(
                    f"no tensor {item!r} in the file's `tensors`",
                    where=marked.at(place),
                    hint=nearest(item, table.tensors)
                    if table.tensors
                    else f"write it down: `{here[-1]}: {{{item}: {{shape: …}}}}`",
                )
            table.used.add(table.places[item])
            yield _Item(item, table.tensors[item], place, table.places[item])
        elif isinstance(item, dict):
            for name, tensor in item.items():
                yield _Item(name, tensor, (*place, name), (*place, name))
        else:
            raise CaseError(
                f"found {described(item)}, expected a name of `tensors` or a tensor by its name",
                where=marked.at(place),
            )
