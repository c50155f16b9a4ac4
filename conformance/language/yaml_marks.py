"""Loads YAML safely, with the position of every key and value. All YAML files are read here.

Files may be untrusted. Only plain values are made. Files that are not text, are too large, or would
expand excessively (aliases of aliases, deep nesting, numbers of thousands of digits) are refused before
that, with the caller's class of error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

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


#: What to do where YAML has cut a text at a comma, in braces or brackets.
CUT = (
    'YAML cuts texts at commas inside braces and brackets: put the text in quotes, "y = add(a, b)"'
)


def is_cut(text: str) -> bool:
    """Whether a text looks like a part of a call that YAML has cut at a comma."""
    return text.count("(") != text.count(")")


#: libyaml reads ten times as fast; PyYAML may have been built without it.
_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(yaml.composer.Composer, _Safe):  # type: ignore[misc]
    """The safe loader; raises `error` for a text that is too much, while it is being read.

    Nodes are composed in Python, as events come from the parser: libyaml's own composer goes as deep in
    C's stack as values are nested.
    """

    def __init__(self, text: str, file: str, error: type[ConformanceError]) -> None:
        _Safe.__init__(self, text)
        yaml.composer.Composer.__init__(self)
        self._file, self._error = file, error
        #: Values so far, levels around the one that is being read, and levels below it so far.
        self._number = self._depth = self._height = 0
        #: The numbers of values and levels in each node that has been read.
        self._sizes: dict[int, tuple[int, int]] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node:
        event = self.peek_event()
        before, around = self._number, self._height
        self._depth += 1
        self._height = 0
        self._grow(event, 1, 1)
        node = cast(yaml.Node, super().compose_node(parent, index))
        if isinstance(event, yaml.AliasEvent):
            if id(node) not in self._sizes:
                raise self._refusal("a value contains itself", event)
            number, height = self._sizes[id(node)]
            self._grow(event, number - 1, height)
        else:
            height = self._height + 1
            self._sizes[id(node)] = self._number - before, height
        self._depth -= 1
        self._height = max(around, height)
        return node

    def _grow(self, event: yaml.Event, values: int, levels: int) -> None:
        self._number += values
        found = {
            "values": (self._number, MAX_VALUES),
            "levels": (self._depth - 1 + levels, MAX_DEPTH),
        }
        for what, (number, most) in found.items():
            if number > most:
                message = f"found more than {most:,} {what}, expected at most that many"
                raise self._refusal(message, event, "an alias counts as often as it is used")

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node: yaml.ScalarNode = super().compose_scalar_node(anchor)
        if node.tag in _NUMBERS and len(node.value) > MAX_DIGITS:
            number = f"a number of {len(node.value)} characters"
            raise self._refusal(f"found {number}, expected at most {MAX_DIGITS}", node)
        if control := control_character(node.value):
            raise self._refusal(f"found a control character {control}", node)
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag not in (_TEXT, _MERGE):
                scalar = isinstance(key, yaml.ScalarNode)
                given = repr(key.value) if scalar else "a list or mapping"
                hint = f'write it in quotes: "{key.value}"' if scalar else ""
                raise self._refusal(f"found {given} as a key, expected text", key, hint)
            if key.value in seen:
                hint = CUT if is_cut(key.value) else ""
                raise self._refusal(f"key {key.value!r} is given twice", key, hint)
            seen.add(key.value)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:  # the 99th of May
            raise self._refusal(f"not YAML: found {node.value!r}: {error}", node) from error

    def _refusal(
        self, message: str, at: yaml.Node | yaml.Event, hint: str = ""
    ) -> ConformanceError:
        return self._error(message, where=_position(self._file, at), hint=hint)


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
            message = f"found more than {MAX_BYTES:,} bytes, expected at most that many"
            raise error(message, where=file)
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
        loader = _Loader(text, file, error)
        try:
            node = loader.get_single_node()
            if node is None:
                if may_be_empty:
                    return Marked(None, yaml.ScalarNode(_NULL, ""), file)
                raise error("the file is empty", where=file)
            value = loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as raised:
        mark = raised.problem_mark
        where = Position(file, mark.line + 1, mark.column + 1) if mark else file
        problem = raised.problem or str(raised)
        hint = "separate the entries in braces by commas, and quote texts that contain `: `"
        hint = hint if "',' or" in problem else ""
        raise error(f"not YAML: {problem}", where=where, hint=hint) from raised
    except (yaml.YAMLError, ValueError) as raised:
        raise error(f"not YAML: {raised}", where=file) from raised
    except RecursionError as raised:
        raise error("values are nested too deep", where=file) from raised
    return Marked(value, node, file)


def _position(file: str, node: yaml.Node | yaml.Event, shift: int = 0) -> Position:
    mark = node.start_mark
    assert mark is not None, "what is read from a text has a place in it"
    return Position(file, mark.line + 1, mark.column + 1 + shift)
