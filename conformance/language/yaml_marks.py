"""Loads YAML safely, with the position of every key and value. All YAML files are read here.

Files may be untrusted. Only plain values are made. Files that are not text, are too large, or would
expand excessively (aliases of aliases, deep nesting, numbers of thousands of digits) are refused before
that, with the caller's class of error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from conformance.errors import CaseError, ConformanceError
from conformance.model.case import Position
from conformance.words import control_character

#: Bytes of a file. Ours have 30,000 at the most; a case of 10,000 statements has 300,000.
MAX_BYTES = 1 << 20
MAX_DEPTH = 60
#: Values in a file, keys among them, each alias counted as often as it is used.
MAX_VALUES = 100_000
MAX_DIGITS = 100
_TEXT = "tag:yaml.org,2002:str"
_NULL = "tag:yaml.org,2002:null"
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
    """A document: its plain values, and the node tree with their positions."""

    value: Any
    node: yaml.Node
    file: str
    #: Paths of values that were copied from elsewhere in the file, each with its original path.
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
        """A path with its beginning replaced by the original path, if it is among `moved`."""
        for end in range(len(path), 0, -1) if self.moved else ():
            if path[:end] in self.moved:
                return (*self.moved[path[:end]], *path[end:])
        return path

    def _position(self, node: yaml.Node) -> Position:
        quoted = 1 if isinstance(node, yaml.ScalarNode) and node.style in ("'", '"') else 0
        return _position(self.file, node, quoted)


def read_text(file: Path, error: type[ConformanceError]) -> str:
    """The text of a file. Raises `error` where it cannot be read, is too large, or is not UTF-8."""
    try:
        if file.exists() and not file.is_file():
            raise error("cannot be read: not a file", where=file)
        with file.open("rb") as handle:
            content = handle.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise error(
                f"found more than {MAX_BYTES:,} bytes, expected at most that many", where=file
            )
        return content.decode("utf-8")
    except OSError as raised:
        raise error(f"cannot be read: {raised.strerror or raised}", where=file) from raised
    except UnicodeDecodeError as raised:
        line = raised.object.count(b"\n", 0, raised.start) + 1
        raise error(f"cannot be read: {raised}", where=f"{file}:{line}") from raised


def read(file: Path, error: type[ConformanceError], *, may_be_empty: bool = False) -> Marked:
    """The document in a file: `read_text` and `load`. Raises `error`."""
    return load(read_text(file, error), str(file), error, may_be_empty=may_be_empty)


def load(
    text: str, file: str, error: type[ConformanceError] = CaseError, *, may_be_empty: bool = False
) -> Marked:
    """A YAML text with positions; `file` is its name in messages, and what is empty is None.

    Raises `error` for what is not YAML, names a key twice, or is too much.
    """
    try:
        _measure_events(text, file)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                if may_be_empty:
                    return Marked(None, yaml.ScalarNode(_NULL, ""), file)
                raise _RefusedError("the file is empty", file)
            _measure(node, file, {})
            value = loader.construct_document(node)
        finally:
            loader.dispose()
    except _RefusedError as refused:
        raise error(refused.message, where=refused.where, hint=refused.hint) from None
    except yaml.MarkedYAMLError as raised:
        mark = raised.problem_mark
        where = Position(file, mark.line + 1, mark.column + 1) if mark else file
        raise error(f"not YAML: {raised.problem or raised}", where=where) from raised
    except (yaml.YAMLError, ValueError) as raised:
        raise error(f"not YAML: {raised}", where=file) from raised
    except RecursionError as raised:
        raise error("values are nested too deep", where=file) from raised
    return Marked(value, node, file)


class _RefusedError(Exception):
    """A text that is refused, and the position of the cause."""

    def __init__(self, message: str, where: Position | str, hint: str = "") -> None:
        super().__init__(message)
        self.message, self.where, self.hint = message, where, hint


def _measure_events(text: str, file: str) -> None:
    """Refuse what is nested too deep or too much before nodes are made of it: those go as deep in C's
    stack, and take time and memory."""
    depth = number = 0
    for event in yaml.parse(text, Loader=_Safe):
        if isinstance(event, yaml.NodeEvent):
            number += 1
            if number > MAX_VALUES:
                raise _too_much("values", MAX_VALUES, _position(file, event))
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
            raise _RefusedError("a value contains itself", _position(file, node))
        return known[id(node)]
    known[id(node)] = (0, 0)
    parts: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        _check_keys(node, file)
        parts = [value for _, value in node.value]
    elif isinstance(node, yaml.SequenceNode):
        parts = node.value
    elif node.tag in _NUMBERS and len(node.value) > MAX_DIGITS:
        raise _RefusedError(
            f"found a number of {len(node.value)} characters, expected at most {MAX_DIGITS}",
            _position(file, node),
        )
    elif _control(node):
        raise _RefusedError(f"found a control character {_control(node)}", _position(file, node))
    inner = [_measure(part, file, known) for part in parts]
    keys = len(node.value) if isinstance(node, yaml.MappingNode) else 0
    number = 1 + keys + sum(count for count, _ in inner)
    depth = 1 + max((depth for _, depth in inner), default=0)
    for number_of, most, what in ((number, MAX_VALUES, "values"), (depth, MAX_DEPTH, "levels")):
        if number_of > most:
            raise _too_much(what, most, _position(file, node))
    known[id(node)] = (number, depth)
    return known[id(node)]


def _control(node: yaml.Node) -> str:
    return control_character(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _too_much(what: str, most: int, where: Position) -> _RefusedError:
    return _RefusedError(
        f"found more than {most:,} {what}, expected at most that many",
        where,
        "an alias counts as often as it is used",
    )


def _check_keys(node: yaml.MappingNode, file: str) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        if key.tag not in (_TEXT, _MERGE):
            given = repr(key.value) if isinstance(key, yaml.ScalarNode) else "a list or mapping"
            raise _RefusedError(
                f"found {given} as a key, expected text",
                _position(file, key),
                f'write it in quotes: "{key.value}"' if isinstance(key, yaml.ScalarNode) else "",
            )
        if key.value in seen:
            raise _RefusedError(f"key {key.value!r} is given twice", _position(file, key))
        if _control(key):
            raise _RefusedError(f"found a control character {_control(key)}", _position(file, key))
        seen.add(key.value)


def _position(file: str, node: yaml.Node | yaml.Event, shift: int = 0) -> Position:
    mark = node.start_mark
    assert mark is not None, "what is read from a text has a place in it"
    return Position(file, mark.line + 1, mark.column + 1 + shift)
