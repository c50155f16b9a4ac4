"""The values of trees of names, and names for the parts of values."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from conformance.model.case import Literal, Ref, Tree
from conformance.model.containers import alike


def build(tree: Tree, names: Mapping[str, Any]) -> Any:
    """The value of a tree of names, constants and containers."""
    if isinstance(tree, Ref):
        return names[tree.name]
    if isinstance(tree, Literal):
        return tree.value
    if isinstance(tree, Mapping):
        return alike(tree, {key: build(part, names) for key, part in tree.items()})
    return alike(tree, (build(part, names) for part in tree))


def bind(tree: Tree, value: Any, names: MutableMapping[str, Any]) -> None:
    """Assign the parts of a value to the names in a tree of the same containers."""
    if isinstance(tree, Ref):
        names[tree.name] = value
    elif isinstance(tree, Mapping):
        for key, part in tree.items():
            bind(part, value[key], names)
    elif isinstance(tree, tuple):
        for part, inner in zip(tree, value, strict=True):
            bind(part, inner, names)
