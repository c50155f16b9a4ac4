"""The axes of a case: one case in a file is a case for each combination of their values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conformance.errors import CaseError, nearest
from conformance.language.source import AXIS, KeyPath
from conformance.language.spec import MAX_COPIES
from conformance.language.spec_errors import described
from conformance.language.yaml_marks import Marked
from conformance.model.case import NUMBER


def expanded(
    marked: Marked, raw: object, family: str, path: KeyPath
) -> Iterator[tuple[str, object]]:
    """The ids and the YAML of the cases that a case in a file stands for, its axes replaced by their
    values. Raises `CaseError`."""
    name = path[-1]
    if not isinstance(name, str) or not re.fullmatch("[a-z][a-z0-9-]*", name):
        raise CaseError(
            f"found case name {name!r}, expected lower-case letters, digits and hyphens",
            where=marked.key(path),
        )
    axes = _axes(marked, path, raw)
    followers = _followers(marked, path, raw, axes)
    for numbers in itertools.product(*(range(len(values)) for values in axes.values())):
        number = dict(zip(axes, numbers, strict=True))
        chosen = {axis: axes[axis][i] for axis, i in number.items()}
        suffix = ",".join(f"{axis}={value}" for axis, value in chosen.items())
        identity = f"{family}/{name}" + (f"[{suffix}]" if suffix else "")
        words = {name: values[number[axis]] for name, (axis, values) in followers.items()}
        yield identity, _substituted(raw, chosen | words, marked, path)


def _axes(marked: Marked, path: KeyPath, raw: object) -> Mapping[str, Sequence[Any]]:
    """The axes of a case. Their values become part of its id, and are words or numbers."""
    axes = raw.get("axes", {}) if isinstance(raw, dict) else {}
    here = (*path, "axes")
    if not isinstance(axes, dict):
        raise CaseError(
            f"found {described(axes)}, expected a mapping of names to lists", where=marked.at(here)
        )
    number = 1
    axes = {axis: values for axis, values in axes.items() if not isinstance(values, dict)}
    for axis, values in axes.items():
        if f"${axis}" == NUMBER:
            raise CaseError(
                f"the name {axis!r} is taken already",
                where=marked.key((*here, axis)),
                hint=f"`{NUMBER}` is the number in a `repeat`",
            )
        if not isinstance(values, list) or not values:
            raise CaseError(
                f"found {described(values)}, expected a list of the values of axis {axis!r}",
                where=marked.at((*here, axis)),
            )
        for i, value in enumerate(values):
            text = value if isinstance(value, str) else repr(value)
            if not re.fullmatch(r"[A-Za-z0-9_.+-]+", text):
                raise CaseError(
                    f"found {described(value)}, expected a word or a number",
                    where=marked.at((*here, axis, i)),
                )
        number *= len(values)
    if number > MAX_COPIES:
        raise CaseError(
            f"the axes make {number} cases, expected at most {MAX_COPIES}", where=marked.at(here)
        )
    return axes


def _followers(
    marked: Marked, path: KeyPath, raw: object, axes: Mapping[str, Sequence[Any]]
) -> Mapping[str, tuple[str, Sequence[Any]]]:
    """The `follows` entries of a case: by name, the axis that it follows and a word for each of that
    axis's values."""
    followers: dict[str, tuple[str, Sequence[Any]]] = {}
    written = raw.get("axes", {}) if isinstance(raw, dict) else {}
    for name, model in written.items():
        if not isinstance(model, dict):
            continue
        axis, values, here = model.get("follows"), model.get("values"), (*path, "axes", name)
        if not isinstance(axis, str) or axis not in axes:
            raise CaseError(
                f"{name!r} follows {axis!r}, which is not an axis",
                where=marked.at(here),
                hint=nearest(str(axis), axes) if axes else "",
            )
        if not isinstance(values, list) or len(values) != len(axes[axis]):
            raise CaseError(
                f"axis {axis!r} has {len(axes[axis])} values, and {name!r} as many words for them",
                where=marked.at(here),
            )
        followers[name] = (axis, values)
    return followers


def _substituted(raw: Any, chosen: Mapping[str, Any], marked: Marked, path: KeyPath) -> Any:
    """YAML with each `$axis` in its texts replaced by the value that is chosen for it."""
    if isinstance(raw, dict):
        if "repeat" in raw:  # `$i` stays in the text until the nodes are unrolled
            chosen = {**chosen, NUMBER[1:]: NUMBER}
        return {
            key: value if key == "axes" else _substituted(value, chosen, marked, (*path, key))
            for key, value in raw.items()
        }
    if isinstance(raw, list):
        return [_substituted(v, chosen, marked, (*path, i)) for i, v in enumerate(raw)]
    if not isinstance(raw, str):
        return raw

    def value(match: re.Match[str]) -> str:
        if match[1] not in chosen:
            hint = nearest(match[1], chosen) if chosen else "the case has no axes"
            if match[0] == NUMBER:
                hint = f"`{NUMBER}` is the number in a `repeat`, and stands in none here"
            raise CaseError(f"unknown axis {match[0]!r}", where=marked.at(path), hint=hint)
        return str(chosen[match[1]])

    whole = AXIS.fullmatch(raw)
    if whole and whole[1] in chosen:
        return chosen[whole[1]]
    return AXIS.sub(value, raw)
