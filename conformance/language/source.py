"""Where a part of a case stands in its file, and the names that a case may give."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterator, Mapping

from conformance.errors import CaseError
from conformance.language.yaml_marks import Marked
from conformance.model.case import Literal, Position, Ref, Tree

#: A path of keys and numbers into the YAML of a file.
KeyPath = tuple[object, ...]
#: Names that emitted programs use for themselves, so that a case cannot.
RESERVED = re.compile(r"np|rng|(arg|result)\d+")
#: An axis of a case, or the number in a `repeat`, in a text: `$dtype`, `$i`.
AXIS = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


class Source:
    """The YAML of one case, for the positions that errors are reported at."""

    def __init__(self, marked: Marked, path: KeyPath) -> None:
        self.marked, self.path = marked, path

    def at(self, *path: object) -> Position:
        """Where the value at a path below the case begins."""
        return self.marked.at((*self.path, *path))

    def key(self, *path: object) -> Position:
        """Where the key of a path below the case stands."""
        return self.marked.key((*self.path, *path))

    def identifier(self, name: str, path: KeyPath, key: bool = False) -> None:
        """Refuse a name that cannot be a variable of an emitted program; `key` if it is a YAML key."""
        where = self.key(*path) if key else self.at(*path)
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
            raise CaseError(
                f"found {name!r}, expected a name",
                where=where,
                hint="letters, digits and underscores, and no word of Python's own",
            )
        if RESERVED.fullmatch(name):
            raise CaseError(
                f"the name {name!r} is taken already",
                where=where,
                hint="every program uses it itself",
            )


def paths_of_names(tree: Tree, path: KeyPath) -> Iterator[tuple[str, KeyPath]]:
    """The names in a tree, each with its path."""
    if isinstance(tree, Ref):
        yield tree.name, path
    elif not isinstance(tree, Literal):
        items = tree.items() if isinstance(tree, Mapping) else enumerate(tree)
        for key, part in items:
            yield from paths_of_names(part, (*path, key))


def with_numbers(text: str, words: Mapping[str, str]) -> str:
    """A text with `$i` replaced by the current number of each `repeat` around it."""
    return AXIS.sub(lambda match: words.get(match[0], match[0]), text)


def is_finite(value: float) -> bool:
    """Whether a number is finite as a float."""
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond all floats
        return False
