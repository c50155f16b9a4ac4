"""YAML, loaded safely, with the place of every value kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from conformance.case import Position
from conformance.errors import CaseError


@dataclass(frozen=True)
class Marked:
    """A document: plain values, and the node tree that knows where each of them stands."""

    value: Any
    node: yaml.Node
    file: str

    def at(self, path: Sequence[object]) -> Position:
        """Where the value at a path stands; parts of the path that do not exist are passed over."""
        node = self.node
        mark = node.start_mark
        for part in path:
            if isinstance(node, yaml.MappingNode):
                for key, value in node.value:
                    if key.value == str(part):
                        node, mark = value, key.start_mark
                        break
            elif isinstance(node, yaml.SequenceNode) and part in range(len(node.value)):
                node = node.value[int(str(part))]
                mark = node.start_mark
        if isinstance(node, yaml.ScalarNode):
            mark = node.start_mark
            quoted = 1 if node.style in ("'", '"') else 0
            return Position(self.file, mark.line + 1, mark.column + 1 + quoted)
        return Position(self.file, mark.line + 1, mark.column + 1)


def load(text: str, file: str) -> Marked:
    """A YAML text with positions. Raises `CaseError` for what is not YAML, or names a key twice."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = Position(file, mark.line + 1, mark.column + 1) if mark else file
        raise CaseError(f"not YAML: {error.problem or error}", where=where) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CaseError(f"not YAML: {error}", where=file) from error
    if node is None:
        raise CaseError("the file is empty", where=file, hint="start with `family: …`")
    _refuse_repeats(node, file)
    return Marked(value, node, file)


def _refuse_repeats(node: yaml.Node, file: str) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                mark = key.start_mark
                where = Position(file, mark.line + 1, mark.column + 1)
                raise CaseError(f"key {key.value!r} is given twice", where=where)
            seen.add(key.value)
            _refuse_repeats(value, file)
    elif isinstance(node, yaml.SequenceNode):
        for part in node.value:
            _refuse_repeats(part, file)
