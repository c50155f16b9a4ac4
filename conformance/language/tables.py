"""The tensors that several cases of a file start from, named once at its top.

    tensors:
      x: {shape: [3, 4], normal: 0.5}
    cases:
      one:
        inputs: [x, flag: {value: true}]

The tensors that a case names are copied into it; their places in the table are kept for errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from conformance.errors import nearest
from conformance.language.source import KeyPath, Source, described
from conformance.language.spec import MAX_COPIES
from conformance.model.case import NUMBER

#: A tensor as YAML writes it, and where it stands in the file.
Written = tuple[Any, KeyPath]


@dataclass(frozen=True)
class Table:
    """A file's `tensors` by name; `used` are the places of those that a case has named so far."""

    tensors: Mapping[str, Written]
    used: set[KeyPath] = field(default_factory=set)

    def refuse_unused(self, file: Source) -> None:
        """Raises `CaseError` for a tensor that no case names: nothing else would look at it."""
        for name, (_, place) in self.tensors.items():
            if place not in self.used:
                hint = "name it (`inputs: x`), or leave it out"
                raise file.error(f"no case names the tensor {name!r}", *place, hint=hint, key=True)


def read_table(file: Source) -> Table:
    """The table of a file, numbered tensors one by one. Raises `CaseError`."""
    given = file.marked.value.get("tensors", {})
    if not isinstance(given, dict):
        message = f"found {described(given)}, expected a mapping of tensors by name"
        raise file.error(message, "tensors")
    tensors: dict[str, Written] = {}
    for key, model in given.items():
        place = ("tensors", key)
        if not isinstance(model, dict):
            raise file.error(f"found {described(model)}, expected a mapping", *place)
        times = model.get("repeat")
        if times is not None and (type(times) is not int or not 1 <= times <= MAX_COPIES):
            message = f"found {described(times)}, expected a number from 1 to {MAX_COPIES}"
            raise file.error(message, *place, "repeat")
        numbers = range(1, (times or 0) + 1)
        for name in [key.replace(NUMBER, str(number)) for number in numbers] or [key]:
            if name in tensors:
                raise file.error(f"the name {name!r} is taken already", *place, key=True)
            tensors[name] = {k: v for k, v in model.items() if k != "repeat"}, place
    return Table(tensors)


def with_tensors(case: Source, raw: Any, table: Table) -> tuple[Source, Any]:
    """A case with the tensors of the table that it names written into it, and where these really stand.

    Raises `CaseError` for a name that the table does not have.
    """
    if not isinstance(raw, dict):
        return case, raw
    filled, moved = dict(raw), dict(case.marked.moved)
    for section in ("inputs", "parameters", "state"):
        given = raw.get(section)
        if not isinstance(given, str | list):
            continue
        tensors: dict[str, Any] = {}
        for i, item in enumerate([given] if isinstance(given, str) else given):
            place: KeyPath = (section, i) if isinstance(given, list) else (section,)
            for name, (tensor, written) in _named(case, item, place, table).items():
                if name in tensors:
                    named = place if isinstance(item, str) else (*place, name)
                    raise case.error(f"the name {name!r} is taken already", *named, key=True)
                tensors[name] = tensor
                moved[(*case.path, section, name)] = written
        filled[section] = tensors
    return Source(replace(case.marked, moved=moved), case.path), filled


def _named(case: Source, item: Any, place: KeyPath, table: Table) -> Mapping[str, Written]:
    """The tensors of one item of a section that is no mapping."""
    if isinstance(item, dict):
        return {name: (tensor, (*case.path, *place, name)) for name, tensor in item.items()}
    if not isinstance(item, str):
        wanted = "a name of `tensors` or a tensor by its name"
        raise case.error(f"found {described(item)}, expected {wanted}", *place)
    if item not in table.tensors:
        hint = nearest(item, table.tensors)
        hint = hint or f"write it down: `{place[0]}: {{{item}: {{shape: …}}}}`"
        raise case.error(f"no tensor {item!r} in the file's `tensors`", *place, hint=hint)
    table.used.add(table.tensors[item][1])
    return {item: table.tensors[item]}
