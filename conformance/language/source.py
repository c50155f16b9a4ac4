"""Where a part of a case stands in its file, the names that it may give, and errors about both."""

import keyword
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from conformance.errors import CaseError, nearest
from conformance.language import spec
from conformance.language.yaml_marks import CUT, Marked, is_cut
from conformance.model.case import NUMBER, Position
from conformance.words import counted

#: A path of keys and numbers into the YAML of a file.
KeyPath = tuple[object, ...]
#: Names that emitted programs use for themselves, so that a case cannot.
RESERVED = re.compile(r"np|rng|(arg|result)\d+")
OWN = "emitted programs use this name; choose another one"
_STATEMENT = "a statement such as `y = tanh(x)` or a region"
#: What pydantic asks for, by the type of its error, in plain words.
_RULES = {
    "too_long": "at most {max_length} entries",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "finite_number": "a finite number",
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
}
_REGION = "the name of a region: lower-case letters, digits, hyphens and underscores"
#: What must match a pattern of `spec`.
_PATTERNS = {
    "=": _STATEMENT,
    r"^[A-Za-z_][A-Za-z0-9_]*$": "a name: letters, digits and underscores",
    r"^[a-z]([a-z0-9_-]|\$i)*$": f"{_REGION}. Arguments stand under `takes`",
    r"^[a-z]([a-z0-9_-]|\$i)*(\(.*\))?$": f"{_REGION}, or its call, such as `block(x, mask=m)`",
}
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
            hint = "use letters, digits and underscores, and no keyword of Python"
            if "," in name:
                hint = f"write several names as a list: `[{name.strip('()')}]`"
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
        example = "`{recompute: block(x), body: y = tanh(x)}`"
        hint = f"write a region in braces, or on lines of its own: {example}"
        hint = hint if loc[-1] == "body" else ""
        return source.error(f"key {loc[-1]!r} is missing", *path, hint=hint)
    words = re.findall(r"'([^']+)'", str(context.get("expected", "")))
    hint = nearest(str(value), words) if kind == "literal_error" else ""
    plain = {"model_type": "a mapping", "dict_type": "a mapping", "list_type": "a list"}
    hint = hint if hint.startswith("did you mean") else ""
    if kind in plain:
        hint = _form(kind, value, context, loc)
    rule = (
        plain.get(kind)
        or _rule(kind, context, loc)
        or first["msg"].removeprefix("Input should be ")
    )
    if isinstance(value, str) and is_cut(value):
        hint = CUT
    joined = ": " if rule == first["msg"] else ", expected "
    said = f"found {described(value)}{joined}{rule}"
    return source.error(said, *path, hint=hint, key=loc[-1:] == ("[key]",))


def _rule(kind: str, context: Mapping[str, Any], loc: Sequence[int | str]) -> str:
    """What is expected, where pydantic would say it in the words of a programmer."""
    if kind in _RULES:
        return _RULES[kind].format(**context)
    statement = any(str(part) in ("program", "body", "layer") for part in loc[-3:])
    if kind == "too_short":
        number = counted(context["min_length"], "entry").replace("entrys", "entries")
        return f"at least {_STATEMENT if statement else number}"
    if kind in ("string_pattern_mismatch", "string_too_short", "string_type"):
        longer = (
            f" of at least {context['min_length']} characters" if "min_length" in context else ""
        )
        pattern = str(context.get("pattern", ""))
        return _PATTERNS.get(pattern) or (_STATEMENT if statement else f"a text{longer}")
    return ""


def _form(kind: str, value: object, context: Mapping[str, Any], loc: Sequence[int | str]) -> str:
    """How a mapping or a list is written, where something else was found."""
    if kind == "list_type" and value is not None:
        return f"write `[{', '.join(value) if isinstance(value, dict) else value}]`"
    if loc[-1:] == ("gradients",) and isinstance(value, list):
        return f"write `gradients: {{wrt: [{', '.join(map(str, value))}]}}`"
    model = getattr(spec, str(context.get("class_name", "")), None)
    names = [field.alias or name for name, field in getattr(model, "model_fields", {}).items()]
    return f"its keys: {', '.join(names)}" if kind == "model_type" and names else ""


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
