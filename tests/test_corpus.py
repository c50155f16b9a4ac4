"""The cases as a whole: no two are the same program, and each says where it comes from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from conformance.language.load import load_text
from conformance.language.operations import OPERATIONS
from conformance.model.case import Case, Position
from tests.suite_cases import CASES

#: What a reader is told, and what says nothing of the program.
WORDS = ("id", "title", "source", "why", "where", "law", "needs", "differs", "seed", "smoke", "use")


class Renamed:
    """Names in the order in which they first appear: two programs that differ in names alone become
    one and the same."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def name(self, name: str) -> str:
        return self.names.setdefault(name, f"n{len(self.names)}")

    def of(self, value: Any, key: str = "") -> Any:
        """A value of a case, without its places and with its names renamed."""
        if isinstance(value, Position):
            return None
        if dataclasses.is_dataclass(value):
            fields = [f.name for f in dataclasses.fields(value) if f.name not in WORDS]
            kept = [(name, self.of(getattr(value, name), name)) for name in fields]
            return (type(value).__name__, *kept)
        if isinstance(value, Mapping):
            parts = ((self.word(k, key), self.of(v, key)) for k, v in value.items())
            return (type(value).__name__, *parts)
        if isinstance(value, list | tuple | frozenset):
            return tuple(self.of(part, key) for part in value)
        return self.word(value, key)

    def word(self, value: Any, key: str) -> Any:
        named = key in ("name", "targets", "region", "wrt", "hooks", "sequence", "save")
        if key == "save" and value in OPERATIONS:
            return value
        return self.name(value) if named and isinstance(value, str) else value


def same(case: Case) -> Any:
    """What two cases have in common that differ only in names and in what they tell the reader."""
    return Renamed().of(case)


def test_no_two_cases_differ_in_names_alone() -> None:
    first: dict[Any, str] = {}
    twice = []
    for case in CASES:
        other = first.setdefault(same(case), case.id)
        if other != case.id:
            twice.append((other, case.id))
    assert twice == []


def test_two_cases_that_differ_in_names_alone_are_found() -> None:
    text = """
family: twins
cases:
  one:
    title: A square
    source: the test
    why: It is small.
    inputs: {x: {shape: [3], full: 2.0}}
    program: [{recompute: block, takes: x, gives: y, body: ["y = multiply(x, x)"]}]
    outputs: y
    gradients: {of: sum(y)}
  two:
    title: Another square
    source: the same test
    why: It is the same.
    inputs: {a: {shape: [3], full: 2.0}}
    program: [{recompute: part, takes: a, gives: b, body: ["b = multiply(a, a)"]}]
    outputs: b
    gradients: {of: sum(b)}
  other:
    title: A sum
    source: the test
    why: It is another.
    inputs: {x: {shape: [3], full: 2.0}}
    program: [{recompute: block, takes: x, gives: y, body: ["y = add(x, x)"]}]
    outputs: y
    gradients: {of: sum(y)}
"""
    one, two, other = load_text(text, "twins.yaml")
    assert same(one) == same(two)
    assert same(one) != same(other)


def test_every_case_says_where_it_comes_from_and_why_it_exists() -> None:
    assert [c.id for c in CASES if len(c.source) < 10 or len(c.why) < 20] == []
    whys: dict[str, list[str]] = {}
    for case in CASES:
        whys.setdefault(case.why, []).append(case.id.partition("[")[0])
    assert [ids for ids in whys.values() if len(set(ids)) > 3] == []
