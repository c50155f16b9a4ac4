"""Smaller programs: a case with a part of it left out or made simpler, as YAML data.

Most of what is proposed cannot be loaded, which is quickly seen; what is left is run.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

Raw = Mapping[str, Any]
Path = tuple[Any, ...]
#: Keys that every case has.
_KEPT = frozenset({"title", "source", "why", "program", "outputs"})
#: How many candidates are loaded and run together.
_BATCH = 8
_STATEMENT = re.compile(r"(.*?) = (\w+)\((.*)\)")


def reduced(raw: Raw, first: Callable[[Sequence[Raw]], Raw | None]) -> Raw:
    """The smallest case that is found by leaving out parts as long as it shows the same.

    `first` returns the first of several candidates that does; or `None`.
    """
    tried: set[str] = set()
    while True:
        candidates = iter(_candidates(raw))
        while batch := list(islice(_new(candidates, tried), _BATCH)):
            found = first(batch)
            if found is not None:
                raw = found
                break
        else:
            return raw


def _new(candidates: Iterator[Raw], tried: set[str]) -> Iterator[Raw]:
    """Those that have not been tried."""
    for candidate in candidates:
        text = json.dumps(candidate)
        if text not in tried:
            tried.add(text)
            yield candidate


def _candidates(raw: Raw) -> Iterator[Raw]:
    """Smaller cases, those first from which much is left out."""
    places = list(_places(raw, ()))
    for path in places:
        if len(path) > 1 and path[0] == "program" and isinstance(path[-1], int):
            yield from _around(raw, path)
    for path in places:
        if path[-1] not in _KEPT and path[-1] != "dtype":
            yield _without(raw, path)
    for path in places:
        yield from _simpler(raw, path)
    yield _everywhere(raw, "dtype")
    yield _everywhere(raw, "uniform")


def _places(value: Any, path: Path) -> Iterator[Path]:
    """The paths of all parts, containers before what is in them; in lists the last first."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))[::-1]
    for key in keys:
        yield (*path, key)
        yield from _places(value[key], (*path, key))


def _at(raw: Any, path: Path) -> Any:
    for key in path:
        raw = raw[key]
    return raw


def _without(raw: Raw, path: Path) -> Raw:
    changed = copy.deepcopy(raw)
    del _at(changed, path[:-1])[path[-1]]
    return changed


def _with(raw: Raw, path: Path, value: Any) -> Raw:
    changed = copy.deepcopy(raw)
    _at(changed, path[:-1])[path[-1]] = value
    return changed


def _around(raw: Raw, path: Path) -> Iterator[Raw]:
    """A node left out, what it made replaced by what it read; or its body in its place."""
    node = _at(raw, path)
    if isinstance(node, str):
        match = _STATEMENT.fullmatch(node)
        if match is None:
            return
        targets, read = match[1].split(", "), re.findall(r"\b[A-Za-z_]\w*\b(?!\s*=)", match[3])
        for name in dict.fromkeys(read):
            yield _renamed(_without(raw, path), dict.fromkeys(targets, name))
        return
    if not isinstance(node, dict):
        return
    made, read = _names(node.get("gives")), _names([node.get("takes"), node.get("kwargs")])
    for name in read:
        if made:
            yield _renamed(_without(raw, path), dict.fromkeys(made, name))
    inside = node.get("body") or [part for layer in node.get("layers", ()) for part in layer]
    if inside and isinstance(inside, list):
        changed = copy.deepcopy(raw)
        _at(changed, path[:-1])[path[-1] : path[-1] + 1] = copy.deepcopy(inside)
        yield changed


def _simpler(raw: Raw, path: Path) -> Iterator[Raw]:
    """A part written in a simpler way."""
    value = _at(raw, path)
    if path[0] == "program" and isinstance(path[-1], int) and isinstance(value, str):
        match = _STATEMENT.fullmatch(value)
        if match is None:
            return
        for option in re.findall(r"(, \w+=(?:\([^)]*\)|\[[^]]*\]|[^,()\[\]]+))", match[3]):
            yield _with(raw, path, value.replace(option, ""))
        first = match[3].split(",")[0].strip("[]")
        if not value.endswith(f" = sin({first})") and "," not in match[1]:
            yield _with(raw, path, f"{match[1]} = sin({first})")
    elif path[-1] in ("takes", "gives", "outputs") and isinstance(value, list | dict):
        names = _names(value)
        flat = names[0] if len(names) == 1 and path[-1] != "takes" else names
        if names and flat != value:
            yield _with(raw, path, flat)
    elif path[-1] in ("repeat", "segments", "release", "steps") and isinstance(value, int):
        if value > 1:
            yield _with(raw, path, value - 1)
    elif path[-1] == "shape" and value != [3, 4]:
        yield _with(raw, path, [3, 4])


def _everywhere(raw: Raw, key: str) -> Raw:
    """The case with all tensors of the usual dtype, or filled in the usual way."""
    changed = copy.deepcopy(dict(raw))
    for section in ("inputs", "parameters", "state"):
        for model in changed.get(section, {}).values():
            if model.pop(key, None) and key == "uniform":
                model["normal"] = 0.5
    return dict(changed)


def _names(tree: Any) -> list[str]:
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, list):
        return [name for part in tree for name in _names(part)]
    return [tree] if isinstance(tree, str) else []


def _renamed(raw: Any, names: Mapping[str, str]) -> Any:
    """The case with other names, also within statements."""
    text = re.sub(
        rf"\b({'|'.join(map(re.escape, names))})\b", lambda m: names[m[1]], json.dumps(raw)
    )
    return dict(json.loads(text))
