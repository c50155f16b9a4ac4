"""Reading case files: YAML in, `Case` values out, every error with file, line and column."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from conformance.errors import CaseError, nearest
from conformance.language.build import CaseBuilder
from conformance.language.expand import expanded, read_table, with_tensors
from conformance.language.source import Source, described
from conformance.language.spec import CaseFileModel
from conformance.language.yaml_marks import load, read_text
from conformance.model.case import Case

_TOP = ("family", "tensors", "cases")


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


def load_folder(folder: Path) -> tuple[Case, ...]:
    """All cases below a folder, by file name and then in file order. Raises `CaseError`."""
    files = sorted(folder.rglob("*.yaml"))
    if not files:
        raise CaseError("no case files (*.yaml) here", where=folder)
    cases = tuple(case for file in files for case in load_file(file))
    first: dict[str, Case] = {}
    for case in cases:
        if first.setdefault(case.id, case) is not case:
            raise CaseError(
                f"case {case.id!r} stands in two files, first at {first[case.id].where}",
                where=case.where,
            )
    return cases


def load_file(file: Path) -> tuple[Case, ...]:
    """The cases of a file, axes expanded. Raises `CaseError`."""
    return load_text(read_text(file, CaseError), str(file))


def load_text(text: str, name: str) -> tuple[Case, ...]:
    """The cases in a text; `name` stands for the file in messages. Raises `CaseError`."""
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
    table = read_table(file)
    loaded: list[Case] = []
    for key, raw in cases.items():
        source, filled = with_tensors(Source(file.marked, ("cases", key)), raw, table)
        for identity, chosen in expanded(source, filled, family):
            loaded.append(CaseBuilder(source.marked, source.path).case(identity, chosen))
    table.refuse_unused(file)
    return tuple(loaded)
