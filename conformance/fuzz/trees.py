"""Arguments and results as trees: containers of every kind that the language has, and names in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from conformance.fuzz.choices import Choices
from conformance.model.containers import KINDS, Fields

Raw = Any
#: The kinds of containers. What each needs of a variant, `words.of_containers` says.
CONTAINERS = ("tuple", "dict", *KINDS)


def written(kind: str, parts: Sequence[Raw]) -> Raw:
    """A container of a kind, as a case writes it."""
    fields = kind == "dict" or (kind in KINDS and issubclass(KINDS[kind], Fields))
    inside: Raw = {f"k{i}": part for i, part in enumerate(parts)} if fields else [*parts]
    return {kind: inside} if kind in KINDS else inside


def _may_be_empty(kind: str) -> bool:
    return kind not in KINDS or not issubclass(KINDS[kind], Fields)


def tree(
    choices: Choices, parts: Sequence[Raw], kinds: Sequence[str], *, nested: bool, alone: bool
) -> Raw:
    """A list of these, perhaps with containers in it where they may be `nested`, or another container
    of all of them where there may be one `alone`."""
    if alone and not nested and parts and choices.chance(15):
        flat = [kind for kind in kinds if kind in ("tuple", "list", "named")]
        return written(choices.one(flat), parts)
    if not nested or not choices.chance(25):
        return [*parts]
    if choices.chance(20):  # an empty one
        empty = written(choices.one([kind for kind in kinds if _may_be_empty(kind)]), [])
        place = choices.up_to(len(parts))
        return [*parts[:place], empty, *parts[place:]]
    if not parts:
        return []
    cut = choices.up_to(len(parts) - 1)
    inside = written(choices.one(kinds), _inside(choices, parts[cut:], kinds))
    return inside if not cut and choices.chance(50) else [*parts[:cut], inside]


def _inside(choices: Choices, parts: Sequence[Raw], kinds: Sequence[str]) -> Sequence[Raw]:
    """What is in a container: at times another one."""
    if not choices.chance(15):
        return parts
    cut = choices.up_to(len(parts) - 1)
    return [*parts[:cut], written(choices.one(kinds), parts[cut:])]


def leaves(tree: Raw) -> list[str]:
    """The names in a tree."""
    if isinstance(tree, Mapping):
        tree = list(tree.values())
    if isinstance(tree, list | tuple):
        return [name for part in tree for name in leaves(part)]
    return [tree] if isinstance(tree, str) else []


def renamed(tree: Raw, names: Mapping[str, str]) -> Raw:
    """A tree with other names."""
    if isinstance(tree, Mapping):
        return {key: renamed(part, names) for key, part in tree.items()}
    if isinstance(tree, list | tuple):
        return [renamed(part, names) for part in tree]
    return names.get(tree, tree) if isinstance(tree, str) else tree


def with_new_names(tree: Raw, values: Mapping[str, Any], name: Any) -> tuple[Raw, dict[str, Any]]:
    """A tree in which every name is a new one, and the values of these."""
    made: dict[str, Any] = {}

    def again(part: Raw) -> Raw:
        if isinstance(part, Mapping):
            return {key: again(inner) for key, inner in part.items()}
        if isinstance(part, list | tuple):
            return [again(inner) for inner in part]
        if not isinstance(part, str):
            return part
        new = name()
        if part in values:
            made[new] = values[part]
        return new

    return again(tree), made
