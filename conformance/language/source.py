"""Where a part of a case stands in its file, the names that it may give, and errors about both."""

import keyword
import math
import re
from collections.abc import Collection, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from conformance.errors import CaseError, nearest
from conformance.language.yaml_marks import Marked
from conformance.model.case import NUMBER, Position

#: A path of keys and numbers into the YAML of a file.
KeyPath = tuple[object, ...]
#: Names that emitted programs use for themselves, so that a case cannot.
RESERVED = re.compile(r"np|rng|(arg|result)\d+")
OWN = "every program uses it itself"
#: An axis of a case, or the number in a `repeat`, in a text: `$dtype`, `$i`.
AXIS = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


class Source:
    """The YAML of one case, for the positions that errors are reported at."""

    def __init__(self, marked: Marked, path: KeyPath) -> None:
        self.marked, self.path = marked, path

    def at(self, *path: object) -> Position:
        """Where the value at a path below the case begins."""
        return self.marked.at((*self.path, *path))

    def error(self, message: str, *path: object, hint: str = "", key: bool = False) -> CaseError:
        """An error at the value of a path below the case, or at its `key`."""
        where = self.marked.key((*self.path, *path)) if key else self.at(*path)
        return CaseError(message, where=where, hint=hint)

    def refuse_other(
        self, word: str, known: Collection[str], message: str, *path: object, key: bool = False
    ) -> None:
        """Refuse a word that is not known, with the nearest one that is."""
        if word not in known:
            raise self.error(message, *path, hint=nearest(word, known), key=key)

    def identifier(self, name: str, *path: object, key: bool = False) -> None:
        """Refuse a name that cannot be a variable of an emitted program; `key` if it is a YAML key."""
        chosen = name.replace(NUMBER, "1")
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", chosen) or keyword.iskeyword(chosen):
            hint = "letters, digits and underscores, and no word of Python's own"
            raise self.error(f"found {name!r}, expected a name", *path, hint=hint, key=key)
        if RESERVED.fullmatch(chosen):
            raise self.error(f"the name {name!r} is taken already", *path, hint=OWN, key=key)


def is_finite(value: float) -> bool:
    """Whether a number is finite as a float."""
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond all floats
        return False


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
    plain = {"model_type": "a mapping", "dict_type": "a mapping", "list_type": "a list"}
    rule = plain.get(kind, first["msg"].removeprefix("Input should be "))
    joined = ": " if rule == first["msg"] else ", expected "
    said = f"found {described(value)}{joined}{rule}"
    return source.error(said, *path, hint=hint, key=loc[-1:] == ("[key]",))


def _path(loc: Sequence[int | str], raw: object) -> tuple[object, ...]:
    """An error's location as a path of the file, without pydantic's words for members of unions."""
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
