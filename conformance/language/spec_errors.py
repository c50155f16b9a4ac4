"""The base of the models of a case file, and their validation errors as messages about the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Discriminator, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from conformance.errors import CaseError, nearest
from conformance.language.source import Source


class Model(BaseModel):
    """Base of all models: unknown keys are errors, values are frozen, numbers are finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, written: Any) -> Any:
        known = {field.alias or name for name, field in cls.model_fields.items()}
        for key in written if isinstance(written, dict) else ():
            if key not in known:
                context = {"key": key, "hint": nearest(str(key), known)}
                raise PydanticCustomError("unknown_key", "unknown key", context)
        return written


def tagged(otherwise: str, *tags: str) -> Discriminator:
    """Chooses the member of a union by the key that a mapping has, `otherwise` where it has none."""

    def tag(value: Any) -> str:
        given = value if isinstance(value, dict) else ()
        return next((f"<{word}>" for word in tags if word in given), f"<{otherwise}>")

    return Discriminator(tag)


def explain(error: ValidationError, raw: object, source: Source) -> CaseError:
    """The most helpful of the errors in `raw`, a case as loaded from YAML."""
    first = _first(error, raw)
    kind, loc, value = first["type"], first["loc"], first.get("input")
    path, context = _path(loc, raw), first.get("ctx", {})
    if kind == "unknown_key":
        key, hint = context["key"], context["hint"]
        return source.error(f"unknown key {key!r}", *path, key, hint=hint, key=True)
    if kind == "missing":
        return source.error(f"key {loc[-1]!r} is missing", *path)
    words = re.findall(r"'([^']+)'", str(context.get("expected", "")))
    hint = nearest(str(value), words) if kind == "literal_error" else ""
    rule = first["msg"].removeprefix("Input should be ")
    rule = {"model_type": "a mapping", "dict_type": "a mapping", "list_type": "a list"}.get(
        kind, rule
    )
    joined = ": " if rule == first["msg"] else ", expected "
    said = f"found {described(value)}{joined}{rule}"
    return source.error(said, *path, hint=hint, key=loc[-1:] == ("[key]",))


def _path(loc: Sequence[int | str], raw: object) -> tuple[object, ...]:
    """An error's location as a path of the file, without pydantic's own words: which member of a union
    it tried."""
    path: list[object] = []
    here: Any = raw
    for part in loc:
        in_list = isinstance(here, list) and isinstance(part, int) and part < len(here)
        if in_list or (isinstance(here, dict) and part in here):
            path.append(part)
            here = here[part]
    return tuple(path)


def _first(error: ValidationError, raw: object) -> ErrorDetails:
    """The error to tell: an unknown key before a missing one, the innermost member of a union."""
    errors = error.errors(include_url=False)
    first = min(errors, key=lambda e: e["type"] != "unknown_key")
    if first["type"] == "unknown_key":
        return first
    place = _path(first["loc"], raw)
    below = [e for e in errors if _path(e["loc"], raw)[: len(place)] == place]
    return max(below, key=lambda e: len(_path(e["loc"], raw)))


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
