"""YAML, loaded safely, with the place of every key and value kept.

A text from anywhere may be given: only plain values are made, and a text that would grow out of all
proportion (aliases of aliases, endless nesting, numbers of thousands of digits) is refused first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from conformance.errors import CaseError
from conformance.model.case import Position

MAX_DEPTH = 60
#: Values in a file, each alias counted as often as it is used.
MAX_VALUES = 200_000
MAX_DIGITS = 100
_TEXT = "tag:yaml.org,2002:str"
_MERGE = "tag:yaml.org,2002:merge"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


#: libyaml reads ten times as fast; PyYAML may have been built without it.
_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Safe):  # type: ignore[misc]
    """The safe loader; a scalar that cannot be made (the 99th of May) is an error with its place."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:
            raise yaml.constructor.ConstructorError(
                None, None, f"found {node.value!r}: {error}", node.start_mark
            ) from error


@dataclass(frozen=True)
class Marked:
    """A document: plain values, and the node tree that knows where each of them stands."""

    value: Any
    node: yaml.Node
    file: str
    #: Paths of what stands elsewhere than it means, each with where it really stands.
    moved: Mapping[tuple[object, ...], tuple[object, ...]] = field(default_factory=dict)

    def at(self, path: Sequence[object]) -> Position:
        """Where the value at a path stands (a list, a mapping, nothing: where its key stands).

        Parts of the path that do not exist are passed over.
        """
        key, value = self._nodes(path)
        written = isinstance(value, yaml.ScalarNode) and (value.value or value.style)
        return self._position(value if written else key)

    def key(self, path: Sequence[object]) -> Position:
        """Where the key stands that a path ends with."""
        return self._position(self._nodes(path)[0])

    def _nodes(self, path: Sequence[object]) -> tuple[yaml.Node, yaml.Node]:
        """The last key (or item of a list) on a path, and its value."""
        key = value = self.node
        for part in self._really(tuple(path)):
            if isinstance(value, yaml.MappingNode):
                for k, v in value.value:
                    if k.value == str(part):
                        key, value = k, v
                        break
            elif isinstance(value, yaml.SequenceNode) and part in range(len(value.value)):
                key = value = value.value[int(str(part))]
        return key, value

    def _really(self, path: tuple[object, ...]) -> tuple[object, ...]:
        """A path, with its beginning where that really stands."""
        for end in range(len(path), 0, -1) if self.moved else ():
            if path[:end] in self.moved:
                return (*self.moved[path[:end]], *path[end:])
        return path

    def _position(self, node: yaml.Node) -> Position:
        quoted = 1 if isinstance(node, yaml.ScalarNode) and node.style in ("'", '"') else 0
        return _position(self.file, node, quoted)


def load(text: str, file: str) -> Marked:
    """A YAML text with positions. Raises `CaseError` for what is not YAML, or names a key twice."""
    try:
        _measure_depth(text, file)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                raise CaseError("the file is empty", where=file, hint="start with `family: …`")
            _measure(node, file, {})
            value = loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = Position(file, mark.line + 1, mark.column + 1) if mark else file
        raise CaseError(f"not YAML: {error.problem or error}", where=where) from error
    except (yaml.YAMLError, ValueError) as error:
        raise CaseError(f"not YAML: {error}", where=file) from error
    except RecursionError as error:
        raise CaseError("values are nested too deep", where=file) from error
    return Marked(value, node, file)


def _measure_depth(text: str, file: str) -> None:
    """Refuse what is nested too deep before nodes are made of it, which goes as deep in C's stack."""
    depth = 0
    for event in yaml.parse(text, Loader=_Safe):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _too_much("levels", MAX_DEPTH, _position(file, event))
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _measure(node: yaml.Node, file: str, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """The number of values in a node and their depth, aliases followed; refuses what is too much.

    `known` holds what was measured before, and zeros for nodes that are being measured.
    """
    if id(node) in known:
        if known[id(node)] == (0, 0):
            raise CaseError("a value contains itself", where=_position(file, node))
        return known[id(node)]
    known[id(node)] = (0, 0)
    parts: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        _check_keys(node, file)
        parts = [value for _, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        parts = node.value
    elif node.tag in _NUMBERS and len(node.value) > MAX_DIGITS:
        raise CaseError(
            f"found a number of {len(node.value)} characters, expected at most {MAX_DIGITS}",
            where=_position(file, node),
        )
    inner = [_measure(part, file, known) for part in parts]
    number = 1 + sum(count for count, _ in inner)
    depth = 1 + max((depth for _, depth in inner), default=0)
    for found, most, what in ((number, MAX_VALUES, "values"), (depth, MAX_DEPTH, "levels")):
        if found > most:
            raise _too_much(what, most, _position(file, node))
    known[id(node)] = (number, depth)
    return known[id(node)]


def _too_much(what: str, most: int, where: Position) -> CaseError:
    return CaseError(
        f"found more than {most} {what}, expected at most that many",
        where=where,
        hint="an alias counts as often as it is used",
    )


def _check_keys(node: yaml.MappingNode, file: str) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        if key.tag not in (_TEXT, _MERGE):
            found = repr(key.value) if isinstance(key, yaml.ScalarNode) else "a list or mapping"
            raise CaseError(
                f"found {found} as a key, expected text",
                where=_position(file, key),
                hint=f'write it in quotes: "{key.value}"'
                if isinstance(key, yaml.ScalarNode)
                else "",
            )
        if key.value in seen:
            raise CaseError(f"key {key.value!r} is given twice", where=_position(file, key))
        seen.add(key.value)


def _position(file: str, node: yaml.Node | yaml.Event, shift: int = 0) -> Position:
    mark = node.start_mark
    assert mark is not None, "what is read from a text has a place in it"
    return Position(file, mark.line + 1, mark.column + 1 + shift)
