"""Translates pydantic's validation errors into messages in terms of a case file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from conformance.errors import nearest
from conformance.language.spec import (
    ArrayModel,
    AsPlainModel,
    CallModel,
    CaseModel,
    CountsModel,
    DefineModel,
    ErrorModel,
    ExpectModel,
    GradientsModel,
    RegionModel,
    ReleaseModel,
    RepeatModel,
    SequenceModel,
    ToleranceModel,
    TrainModel,
    TrainProcedure,
    ValueModel,
)

#: The model behind a word of an error's location.
_MODELS: Mapping[str, type[BaseModel]] = {
    "recompute": RegionModel,
    "call": CallModel,
    "define": DefineModel,
    "sequence": SequenceModel,
    "repeat": RepeatModel,
    "array": ArrayModel,
    "value": ValueModel,
    "parameters": ArrayModel,
    "state": ArrayModel,
    "gradients": GradientsModel,
    "TrainProcedure": TrainProcedure,
    "train": TrainModel,
    "release": ReleaseModel,
    "tolerance": ToleranceModel,
    "error": ErrorModel,
    "as-plain": AsPlainModel,
    "expect": ExpectModel,
    "executions": CountsModel,
}
_NODES = ("statement", "recompute", "define", "sequence", "repeat", "call")
#: Sections whose keys are names chosen by the case.
_NAMED = ("inputs", "parameters", "state", "executions")


@dataclass(frozen=True)
class Explanation:
    """One error: its message and hint, its path in the case, and whether the key itself is wrong."""

    message: str
    hint: str
    path: tuple[object, ...]
    key: bool


def explain(error: ValidationError, raw: object) -> Explanation:
    """The most helpful of the errors in `raw`, a case as loaded from YAML."""
    first = _first(error, raw)
    kind, loc, value = first["type"], first["loc"], first.get("input")
    path, hint = _path(loc, raw), ""
    if kind == "extra_forbidden":
        hint = nearest(str(loc[-1]), _fields_at(loc))
        return Explanation(f"unknown key {loc[-1]!r}", hint, path, True)
    if kind == "missing":
        return Explanation(f"key {loc[-1]!r} is missing", hint, path, False)
    if kind == "literal_error":
        words = re.findall(r"'([^']+)'", str(first.get("ctx", {}).get("expected", "")))
        hint = nearest(str(value), words)
    rule = first["msg"].removeprefix("Input should be ")
    rule = {"model_type": "a mapping", "dict_type": "a mapping", "list_type": "a list"}.get(
        kind, rule
    )
    joined = ": " if rule == first["msg"] else ", expected "
    said = f"found {described(value)}{joined}{rule}"
    return Explanation(said, hint, path, loc[-1:] == ("[key]",))


def _steps(loc: Sequence[int | str], raw: object) -> Iterator[tuple[int | str, bool]]:
    """The parts of an error's location, and whether each is a key of the file.

    The others are pydantic's own: which member of a union it tried.
    """
    before: int | str = ""
    here: Any = raw
    for i, part in enumerate(loc):
        node = isinstance(before, int) and part in _NODES
        given = i == 2 and loc[0] == "inputs"
        known = part in here if isinstance(here, dict) else False
        if isinstance(here, list) and isinstance(part, int):
            known = part < len(here)
        real = known and not node and not given
        if real:
            here = here[part]
        yield part, real
        before = part


def _path(loc: Sequence[int | str], raw: object) -> tuple[object, ...]:
    """An error's location as a path of the file."""
    return tuple(part for part, real in _steps(loc, raw) if real)


def _first(error: ValidationError, raw: object) -> ErrorDetails:
    """The error to tell: an unknown key before a missing one, the innermost member of a union."""
    errors = error.errors(include_url=False)
    first = min(errors, key=lambda e: e["type"] != "extra_forbidden")
    place = _path(first["loc"], raw)
    below = [e for e in errors if _path(e["loc"], raw)[: len(place)] == place]
    if first["type"] == "extra_forbidden":
        return first
    return max(below, key=lambda e: len(_path(e["loc"], raw)))


def _fields_at(loc: Sequence[int | str]) -> Iterable[str]:
    """The keys that are known where an unknown one was found."""
    model: type[BaseModel] = CaseModel
    before: int | str = ""
    for part in loc[:-1]:
        if before not in _NAMED:
            model = _MODELS.get(str(part), model)
        before = part
    return model.model_fields


def described(value: object) -> str:
    """A value from a file in a few words."""
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
