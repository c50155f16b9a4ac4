"""Reading case files: YAML in, `Case` values out, every error with file, line and column.

A case in a file stands for a case for each combination of the values of its axes. Tensors that several
cases of the file start from are named once at its top:

    tensors:
      x: {shape: [3, 4], normal: 0.5}
    cases:
      one:
        inputs: [x, flag: {value: true}]

The tensors that a case names are copied into it; their places in the file are kept for errors.
"""

import itertools
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from conformance.errors import CaseError, nearest
from conformance.language.build import CaseBuilder
from conformance.language.source import AXIS, KeyPath, Source, described
from conformance.language.spec import MAX_COPIES, CaseFileModel
from conformance.language.yaml_marks import load, read_text
from conformance.model.case import NUMBER, Case
from conformance.words import printable

#: The folder, below that of cases, and the family of what was found among generated programs.
FOUND = "found"
_TOP = ("family", "tensors", "cases")
#: An axis's values; by name, the axis that a word follows and a word for each of that axis's values.
Axes = Mapping[str, Sequence[Any]]
Followers = Mapping[str, tuple[str, Sequence[Any]]]
#: A tensor as YAML writes it, and where it stands in the file; a file's `tensors` by name.
Written = tuple[Any, KeyPath]
Table = Mapping[str, Written]


def schema() -> dict[str, Any]:
    """The JSON Schema of case files, for editors."""
    made = CaseFileModel.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Recompute conformance cases",
        **{key: _closed(value) for key, value in made.items() if key != "title"},
    }


def _closed(part: Any) -> Any:
    """A part of a schema that forbids keys which match no pattern, as the pydantic models do, and says
    what a key means in one line."""
    if isinstance(part, list):
        return [_closed(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    closed = {key: _closed(value) for key, value in part.items()}
    for said in closed.get("properties", {}).values():
        if "description" in said:
            said["description"] = " ".join(said["description"].split())
    return closed | ({"additionalProperties": False} if "patternProperties" in closed else {})


def load_folder(folder: Path, refused: list[CaseError] | None = None) -> tuple[Case, ...]:
    """All cases below a folder, by file name and then in file order.

    Raises `CaseError`. With a list `refused`, malformed cases and files are left out, and their errors
    are added to the list. Cases that `conformance fuzz` has found are left out if they are malformed.
    """
    files = sorted(folder.rglob("*.yaml"))
    if not files:
        raise CaseError("found no case files (*.yaml)", where=folder)
    cases: list[Case] = []
    for file in files:
        try:
            cases += load_text(read_text(file, CaseError), str(file), refused)
        except CaseError as error:
            if file.parent == folder / FOUND:
                print(f"left out: {printable(str(error))}", file=sys.stderr)
            elif refused is None:
                raise
            else:
                refused.append(error)
    first: dict[str, Case] = {}
    for case in cases:
        if first.setdefault(case.id, case) is not case:
            raise CaseError(
                f"found case {case.id!r} in two files, the other time at {first[case.id].where}",
                where=case.where,
            )
    return tuple(cases)


def load_file(file: Path) -> tuple[Case, ...]:
    """The cases of a file, axes expanded. Raises `CaseError`."""
    return load_text(read_text(file, CaseError), str(file))


def load_text(text: str, name: str, refused: list[CaseError] | None = None) -> tuple[Case, ...]:
    """The cases in a text; `name` stands for the file in messages.

    Raises `CaseError`. With a list `refused`, malformed cases are left out, and their errors are added.
    """
    file = Source(load(text, name), ())
    top = file.marked.value
    if not isinstance(top, dict):
        message = f"found {described(top)}, expected a mapping with the keys family and cases"
        raise file.error(message)
    for key in top:
        if key not in _TOP:
            raise file.error(f"unknown key {key!r}", key, hint=nearest(key, _TOP), key=True)
    for key in ("family", "cases"):
        if key not in top:
            raise file.error(f"key {key!r} is missing")
    family, cases = top["family"], top["cases"]
    if not isinstance(family, str) or not re.fullmatch("[a-z][a-z0-9-]*", family):
        wanted = "expected lower-case letters, digits and hyphens"
        raise file.error(f"found family {family!r}, {wanted}", "family")
    if not isinstance(cases, dict) or not cases:
        message = f"found {described(cases)}, expected a mapping of cases by name"
        raise file.error(message, "cases")
    table = _table(file)
    used: set[KeyPath] = set()
    loaded: list[Case] = []
    for key, raw in cases.items():
        try:
            source, filled = _with_tensors(Source(file.marked, ("cases", key)), raw, table)
            used |= set(source.marked.moved.values())
            for identity, chosen in _expanded(source, filled, family):
                loaded.append(CaseBuilder(source.marked, source.path).case(identity, chosen))
        except CaseError as error:
            if refused is None:
                raise
            refused.append(error)
    for name, (_, place) in table.items():
        if place not in used and not refused:
            hint = f"name it in a case (`inputs: {name}`), or remove it"
            raise file.error(f"no case uses the tensor {name!r}", *place, hint=hint, key=True)
    return tuple(loaded)


def _expanded(source: Source, raw: object, family: str) -> Iterator[tuple[str, object]]:
    """The ids and the YAML of the cases that a case in a file stands for, its axes replaced by their
    values. Raises `CaseError`."""
    name = source.path[-1]
    if not isinstance(name, str) or not re.fullmatch("[a-z][a-z0-9-]*", name):
        wanted = "expected lower-case letters, digits and hyphens"
        raise source.error(f"found case name {name!r}, {wanted}", key=True)
    written = raw.get("axes", {}) if isinstance(raw, dict) else {}
    if not isinstance(written, dict):
        message = f"found {described(written)}, expected a mapping of names to lists"
        raise source.error(message, "axes")
    axes = _axes(source, written)
    followers = _followers(source, written, axes)
    for numbers in itertools.product(*(range(len(values)) for values in axes.values())):
        number = dict(zip(axes, numbers, strict=True))
        chosen = {axis: axes[axis][i] for axis, i in number.items()}
        suffix = ",".join(f"{axis}={value}" for axis, value in chosen.items())
        identity = f"{family}/{name}" + (f"[{suffix}]" if suffix else "")
        words = {name: values[number[axis]] for name, (axis, values) in followers.items()}
        yield identity, _substituted(raw, chosen | words, source, ())


def _axes(source: Source, written: Mapping[str, Any]) -> Axes:
    """The axes of a case. Their values become part of its id, and are words or numbers."""
    axes = {axis: values for axis, values in written.items() if not isinstance(values, dict)}
    for axis, values in axes.items():
        if f"${axis}" == NUMBER:
            message = f"the name {axis!r} is taken already"
            hint = f"`{NUMBER}` is the number in a `repeat`"
            raise source.error(message, "axes", axis, hint=hint, key=True)
        if not isinstance(values, list) or not values:
            wanted = f"a list of the values of axis {axis!r}"
            raise source.error(f"found {described(values)}, expected {wanted}", "axes", axis)
        for i, value in enumerate(values):
            text = value if isinstance(value, str) else repr(value)
            if not re.fullmatch(r"[A-Za-z0-9_.+-]+", text):
                message = f"found {described(value)}, expected a word or a number"
                raise source.error(message, "axes", axis, i)
    number = math.prod(map(len, axes.values()))
    if number > MAX_COPIES:
        message = f"the axes make {number} cases, expected at most {MAX_COPIES}"
        raise source.error(message, "axes")
    return axes


def _followers(source: Source, written: Mapping[str, Any], axes: Axes) -> Followers:
    followers: dict[str, tuple[str, Sequence[Any]]] = {}
    for name, model in written.items():
        if not isinstance(model, dict):
            continue
        axis, values = model.get("follows"), model.get("values")
        if not isinstance(axis, str) or axis not in axes:
            message = f"{name!r} follows {axis!r}, which is not an axis"
            raise source.error(message, "axes", name, hint=nearest(str(axis), axes))
        if not isinstance(values, list) or len(values) != len(axes[axis]):
            message = f"axis {axis!r} has {len(axes[axis])} values, and {name!r} needs as many"
            raise source.error(message, "axes", name)
        followers[name] = (axis, values)
    return followers


def _substituted(raw: Any, chosen: Mapping[str, Any], source: Source, path: KeyPath) -> Any:
    """The YAML at a path with values in place of axes."""
    if isinstance(raw, dict):
        if "repeat" in raw and raw.keys().isdisjoint(("shape", "values")):
            # `$i` stays in the text of nodes, for the case to hold; tensors have it in names alone.
            chosen = {**chosen, NUMBER[1:]: NUMBER}
        return {
            key: value if key == "axes" else _substituted(value, chosen, source, (*path, key))
            for key, value in raw.items()
        }
    if isinstance(raw, list):
        return [_substituted(v, chosen, source, (*path, i)) for i, v in enumerate(raw)]
    if not isinstance(raw, str):
        return raw

    def value(match: re.Match[str]) -> str:
        if match[1] not in chosen:
            hint = nearest(match[1], chosen) or "the case has no axes"
            if match[0] == NUMBER:
                hint = f"`{NUMBER}` is the number in a `repeat`, and stands in none here"
            raise source.error(f"unknown axis {match[0]!r}", *path, hint=hint)
        return str(chosen[match[1]])

    whole = AXIS.fullmatch(raw)
    if whole and whole[1] in chosen:
        return chosen[whole[1]]
    return AXIS.sub(value, raw)


def _table(file: Source) -> Table:
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
    return tensors


def _with_tensors(case: Source, raw: Any, table: Table) -> tuple[Source, Any]:
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
    """The tensors of one item of a section other than a mapping."""
    if isinstance(item, dict):
        return {name: (tensor, (*case.path, *place, name)) for name, tensor in item.items()}
    if not isinstance(item, str):
        wanted = "a name of `tensors` or a tensor by its name"
        raise case.error(f"found {described(item)}, expected {wanted}", *place)
    if item not in table:
        hint = nearest(item, table)
        hint = hint or f"write it down: `{place[0]}: {{{item}: {{shape: …}}}}`"
        raise case.error(f"no tensor {item!r} in the file's `tensors`", *place, hint=hint)
    return {item: table[item]}
