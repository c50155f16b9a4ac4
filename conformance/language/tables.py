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

from conformance.errors import nearest
from conformance.language.source import KeyPath, Source
from conformance.language.spec import MAX_COPIES
from conformance.language.spec_errors import described
from conformance.model.case import NUMBER

SECTIONS = ("inputs", "parameters", "state")


@dataclass(frozen=True)
class Table:
    """The tensors of a file's `tensors` by name, and where each stands; `used` by a case so far."""

    tensors: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, KeyPath] = field(default_factory=dict)
    used: set[KeyPath] = field(default_factory=set)

    def refuse_unused(self, file: Source) -> None:
        """Raises `CaseError` for a tensor that no case names: nothing else would look at it."""
        for name, place in self.places.items():
            if place not in self.used:
                hint = "name it (`inputs: x`), or leave it out"
                raise file.error(f"no case names the tensor {name!r}", *place, hint=hint, key=True)


def read_table(file: Source) -> Table:
    """The table of a file, numbered tensors one by one. Raises `CaseError`."""
    given = file.marked.value.get("tensors", {})
    if not isinstance(given, dict):
        message = f"found {described(given)}, expected a mapping of tensors by name"
        raise file.error(message, "tensors")
    tensors: dict[str, Any] = {}
    places: dict[str, KeyPath] = {}
    for key, model in given.items():
        place = ("tensors", key)
        if not isinstance(model, dict):
            raise file.error(f"found {described(model)}, expected a mapping", *place)
        times = model.get("repeat")
        if times is not None and (type(times) is not int or not 1 <= times <= MAX_COPIES):
            message = f"found {described(times)}, expected a number from 1 to {MAX_COPIES}"
            raise file.error(message, *place, "repeat")
        alone = {word: value for word, value in model.items() if word != "repeat"}
        numbers = [None] if times is None else range(1, times + 1)
        for number in numbers:
            name = key if number is None else key.replace(NUMBER, str(number))
            if name in tensors:
                raise file.error(f"the name {name!r} is taken already", *place, key=True)
            tensors[name], places[name] = alone, place
    return Table(tensors, places)


def with_tensors(case: Source, raw: Any, table: Table) -> tuple[Source, Any]:
    """A case with the tensors of the table that it names written into it, and where these really stand.

    Raises `CaseError` for a name that the table does not have.
    """
    if not isinstance(raw, dict):
        return case, raw
    filled, moved = dict(raw), dict(case.marked.moved)
    for section in SECTIONS:
        given = raw.get(section)
        if not isinstance(given, str | list):
            continue
        tensors: dict[str, Any] = {}
        for item in _items(case, section, given, table):
            if item.name in tensors:
                message = f"the name {item.name!r} is taken already"
                raise case.error(message, *item.named, key=True)
            tensors[item.name] = item.tensor
            moved[(*case.path, section, item.name)] = item.written
        filled[section] = tensors
    return Source(replace(case.marked, moved=moved), case.path), filled


@dataclass(frozen=True)
class _Item:
    """A tensor of a section: where in the case it is named, and where in the file it is written."""

    name: str
    tensor: Any
    named: KeyPath
    written: KeyPath


def _items(case: Source, section: str, given: str | list[Any], table: Table) -> Iterator[_Item]:
    """The tensors of a section that is no mapping."""
    for i, item in enumerate([given] if isinstance(given, str) else given):
        place = (section, i) if isinstance(given, list) else (section,)
        if isinstance(item, str):
            if item not in table.tensors:
                hint = nearest(item, table.tensors)
                hint = hint or f"write it down: `{section}: {{{item}: {{shape: …}}}}`"
                raise case.error(f"no tensor {item!r} in the file's `tensors`", *place, hint=hint)
            table.used.add(table.places[item])
            yield _Item(item, table.tensors[item], place, table.places[item])
        elif isinstance(item, dict):
            for name, tensor in item.items():
                yield _Item(name, tensor, (*place, name), (*case.path, *place, name))
        else:
            wanted = "a name of `tensors` or a tensor by its name"
            raise case.error(f"found {described(item)}, expected {wanted}", *place)
