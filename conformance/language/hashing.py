"""A hash of a set of cases: results are comparable only if theirs are equal."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from conformance.model.case import Case, Position, Repeat, flat
from conformance.model.containers import Fields, Listed

#: The keys of a case that say nothing about its program or its verdicts.
WORDS = ("title", "source", "why", "smoke", "use")


def cases_hash(cases: Sequence[Case]) -> str:
    """SHA-256 (hex) over the values of the cases. It does not depend on their order, on their place in
    the files, or on `WORDS`: results stay valid when a title changes."""
    canonical = [_canonical(case) for case in sorted(cases, key=lambda case: case.id)]
    text = json.dumps(canonical, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _canonical(value: object) -> Any:
    """A value as JSON that keeps types apart. Positions are left out; sets are sorted; what is repeated
    is the same as what is written out."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return [type(value).__name__, repr(value)]
    if isinstance(value, Listed):
        return ["list", [_canonical(part) for part in value]]
    if isinstance(value, Fields):
        return [value.kind, [[key, _canonical(part)] for key, part in value.items()]]
    if isinstance(value, Mapping):
        return ["map", [[_canonical(k), _canonical(v)] for k, v in value.items()]]
    if isinstance(value, tuple | list):
        written_out = flat(value) if any(isinstance(part, Repeat) for part in value) else value
        return ["sequence", [_canonical(part) for part in written_out]]
    if isinstance(value, set | frozenset):
        return ["set", sorted((_canonical(part) for part in value), key=json.dumps)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.compare}
        if isinstance(value, Case):
            parts = {k: v for k, v in parts.items() if k not in WORDS}
        kept = {k: _canonical(v) for k, v in parts.items() if not isinstance(v, Position)}
        return [type(value).__name__, sorted(kept.items())]
    raise TypeError(f"a case holds a {type(value).__name__}, which has no canonical form")
