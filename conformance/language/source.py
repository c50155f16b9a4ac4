"""Where a part of a case stands in its file, and the names that a case may give."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Collection

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
