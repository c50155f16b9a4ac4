"""Writing one case as its own file: with the tensors that it uses and no YAML aliases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from conformance.errors import CaseError
from conformance.language.load import load_text
from conformance.language.source import Source
from conformance.language.tables import SECTIONS, read_table
from conformance.language.yaml_marks import Marked, load
from conformance.model.case import Case
from conformance.results.hashing import cases_hash


def alone(case: Case) -> str:
    """A file that holds this case alone, axes unexpanded: as it is written, wherever that can be.

    A case that has aliases of what stands elsewhere in its file is written anew.
    """
    text = Path(case.where.file).read_text("utf-8")
    marked = load(text, case.where.file)
    name = _name(case)
    written = _as_written(text, marked, case, name)
    originals = [candidate for candidate in load_text(text, "file") if _name(candidate) == name]
    try:
        is_same = cases_hash(load_text(written, "case")) == cases_hash(originals)
    except CaseError:
        is_same = False
    return written if is_same else _dumped(marked, case, name)


def _name(case: Case) -> str:
    """A case's key in its file: its id without the family and the values of axes."""
    return case.id.partition("/")[2].partition("[")[0]


def _as_written(text: str, marked: Marked, case: Case, name: str) -> str:
    lines = text.splitlines()
    texts = [f"family: {case.family}"]
    used = _used(marked, name)
    if used:
        numbers = [marked.key(("tensors", key)).line for key in used]
        texts += ["tensors:", *(line for n in numbers for line in _block(lines, n))]
    return "\n".join([*texts, "cases:", *_block(lines, marked.key(("cases", name)).line)])


def _block(lines: Sequence[str], number: int) -> Iterator[str]:
    """The line of that number and those after it that are indented further."""
    indent = len(lines[number - 1]) - len(lines[number - 1].lstrip())
    end = number
    while end < len(lines):
        line = lines[end]
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        end += 1
    yield from "\n".join(lines[number - 1 : end]).rstrip().splitlines()


def _used(marked: Marked, name: str) -> Mapping[str, Any]:
    """The entries of the table that a case names."""
    raw, table = marked.value["cases"][name], read_table(Source(marked, ()))
    named = set()
    for section in SECTIONS:
        section_value = raw.get(section, [])
        entries = [section_value] if isinstance(section_value, str) else section_value
        if not isinstance(section_value, dict):
            named |= {table.places[name][1] for name in entries if isinstance(name, str)}
    tensors = marked.value.get("tensors", {}) if named else {}
    return {key: tensors[key] for key in tensors if key in named}


class _Dumper(yaml.SafeDumper):
    """A YAML dumper that writes repeated values in full, without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _dumped(marked: Marked, case: Case, name: str) -> str:
    used = _used(marked, name)
    parts = {"family": case.family, **({"tensors": used} if used else {})}
    written = {**parts, "cases": {name: marked.value["cases"][name]}}
    return yaml.dump(
        written,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        width=110,
        allow_unicode=True,
    ).rstrip()
