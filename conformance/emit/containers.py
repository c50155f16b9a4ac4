"""Writes the containers that arguments and results of regions have: tuples, lists, dicts, named tuples
and dataclasses, with the classes of the last two."""

from collections.abc import Iterator, Mapping, Sequence

from conformance.model.case import Again, Case, Literal, Ref, Region, Tree, walk
from conformance.model.containers import Fields, Listed

#: By kind: what classes are called, and the import that they need.
_CLASSES = {"named": "Fields", "object": "Record"}
IMPORTS = {
    "named": "from collections import namedtuple",
    "object": "from dataclasses import dataclass",
}


def classes(case: Case) -> dict[tuple[str, ...], str]:
    """The names of the classes that a case's containers need, by kind and names of the fields."""
    calls = [node for node in walk(case.program) if isinstance(node, Region | Again)]
    trees: list[Tree] = [tree for n in calls for tree in (*n.takes, *n.kwargs.values(), n.gives)]
    trees += [case.outputs]
    every = [part for tree in trees for part in _containers(tree)]
    found = [tree for tree in every if isinstance(tree, Fields)]
    names: dict[tuple[str, ...], str] = {}
    for kind, *fields in dict.fromkeys((tree.kind, *tree) for tree in found):
        stem = _CLASSES[kind]
        number = sum(name.startswith(stem) for name in names.values())
        names[kind, *fields] = f"{stem}{number + 1}" if number else stem
    return names


def _containers(tree: Tree) -> Iterator[Tree]:
    if not isinstance(tree, Ref | Literal):
        yield tree
        for part in tree.values() if isinstance(tree, Mapping) else tree:
            yield from _containers(part)


def definition(kind: str, name: str, fields: Sequence[str], decorator: str) -> str:
    """The lines that define a class; `decorator` stands before that of a dataclass."""
    if kind == "named":
        listed = ", ".join(f'"{field}"' for field in fields)
        return f'{name} = namedtuple("{name}", [{listed}])\n'
    lines = [decorator, "@dataclass", f"class {name}:", *(f"    {f}: object" for f in fields)]
    return "\n".join(filter(None, lines)) + "\n"


def written(container: Tree, parts: Sequence[str], names: dict[tuple[str, ...], str]) -> str:
    """The expression of a container, of the expressions of its parts."""
    if isinstance(container, Fields):
        given = ", ".join(f"{key}={part}" for key, part in zip(container, parts, strict=True))
        return f"{names[container.kind, *container]}({given})"
    if isinstance(container, dict):
        pairs = zip(container, parts, strict=True)
        return "{" + ", ".join(f"{key!r}: {part}" for key, part in pairs) + "}"
    if isinstance(container, Listed):
        return f"[{', '.join(parts)}]"
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def part_of(container: Tree, whole: str, key: object) -> str:
    """The expression of a part of a container."""
    return f"{whole}.{key}" if isinstance(container, Fields) else f"{whole}[{key!r}]"
