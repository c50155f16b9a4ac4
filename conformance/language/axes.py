"""The axes of a case: one case in a file is a case for each combination of their values."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conformance.errors import nearest
from conformance.language.source import AXIS, KeyPath, Source, described
from conformance.language.spec import MAX_COPIES
from conformance.model.case import NUMBER

#: An axis's values; by name, the axis that a word follows and a word for each of that axis's values.
Axes = Mapping[str, Sequence[Any]]
Followers = Mapping[str, tuple[str, Sequence[Any]]]


def expanded(source: Source, raw: object, family: str) -> Iterator[tuple[str, object]]:
    """The ids and the YAML of the cases that a case in a file stands for, its axes replaced by their
    values. Raises `CaseError`."""
    name = source.path[-1]
    if not isinstance(name, str) or not re.fullmatch("[a-z][a-z0-9-]*", name):
        wanted = "expected lower-case letters, digits and hyphens"
        raise source.error(f"found case name {name!r}, {wanted}", key=True)
    written = raw.get("axes", {}) if isinstance(raw, dict) else {}
    if not isinstance(written, dict):
        message = f"found {described(written)}, expected a mapping of names to lists"
        raise source.error(message, "axes")
    axes = _axes(source, written)
    followers = _followers(source, written, axes)
    for numbers in itertools.product(*(range(len(values)) for values in axes.values())):
        number = dict(zip(axes, numbers, strict=True))
        chosen = {axis: axes[axis][i] for axis, i in number.items()}
        suffix = ",".join(f"{axis}={value}" for axis, value in chosen.items())
        identity = f"{family}/{name}" + (f"[{suffix}]" if suffix else "")
        words = {name: values[number[axis]] for name, (axis, values) in followers.items()}
        yield identity, _substituted(raw, chosen | words, source, ())


def _axes(source: Source, written: Mapping[str, Any]) -> Axes:
    """The axes of a case. Their values become part of its id, and are words or numbers."""
    axes = {axis: values for axis, values in written.items() if not isinstance(values, dict)}
    for axis, values in axes.items():
        if f"${axis}" == NUMBER:
            message, hint = (
                f"the name {axis!r} is taken already",
                f"`{NUMBER}` is the number in a `repeat`",
            )
            raise source.error(message, "axes", axis, hint=hint, key=True)
        if not isinstance(values, list) or not values:
            wanted = f"a list of the values of axis {axis!r}"
            raise source.error(f"found {described(values)}, expected {wanted}", "axes", axis)
        for i, value in enumerate(values):
            text = value if isinstance(value, str) else repr(value)
            if not re.fullmatch(r"[A-Za-z0-9_.+-]+", text):
                message = f"found {described(value)}, expected a word or a number"
                raise source.error(message, "axes", axis, i)
    number = math.prod(map(len, axes.values()))
    if number > MAX_COPIES:
        message = f"the axes make {number} cases, expected at most {MAX_COPIES}"
        raise source.error(message, "axes")
    return axes


def _followers(source: Source, written: Mapping[str, Any], axes: Axes) -> Followers:
    """The `follows` entries of a case."""
    followers: dict[str, tuple[str, Sequence[Any]]] = {}
    for name, model in written.items():
        if not isinstance(model, dict):
            continue
        axis, values = model.get("follows"), model.get("values")
        if not isinstance(axis, str) or axis not in axes:
            message = f"{name!r} follows {axis!r}, which is not an axis"
            raise source.error(message, "axes", name, hint=nearest(str(axis), axes))
        if not isinstance(values, list) or len(values) != len(axes[axis]):
            message = f"axis {axis!r} has {len(axes[axis])} values, and {name!r} needs as many"
            raise source.error(message, "axes", name)
        followers[name] = (axis, values)
    return followers


def _substituted(raw: Any, chosen: Mapping[str, Any], source: Source, path: KeyPath) -> Any:
    """The YAML at a path with values in place of axes."""
    if isinstance(raw, dict):
        if "repeat" in raw and raw.keys().isdisjoint(("shape", "values")):
            # `$i` stays in the text of nodes, for the case to hold; tensors have it in names alone.
            chosen = {**chosen, NUMBER[1:]: NUMBER}
        return {
            key: value if key == "axes" else _substituted(value, chosen, source, (*path, key))
            for key, value in raw.items()
        }
    if isinstance(raw, list):
        return [_substituted(v, chosen, source, (*path, i)) for i, v in enumerate(raw)]
    if not isinstance(raw, str):
        return raw

    def value(match: re.Match[str]) -> str:
        if match[1] not in chosen:
            hint = nearest(match[1], chosen) or "the case has no axes"
            if match[0] == NUMBER:
                hint = f"`{NUMBER}` is the number in a `repeat`, and stands in none here"
            raise source.error(f"unknown axis {match[0]!r}", *path, hint=hint)
        return str(chosen[match[1]])

    whole = AXIS.fullmatch(raw)
    if whole and whole[1] in chosen:
        return chosen[whole[1]]
    return AXIS.sub(value, raw)
