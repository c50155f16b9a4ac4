"""Hashes of cases, and the pages on results: what they say is so."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.model.case import Literal
from conformance.model.observation import (
    Execution,
    Observation,
    Run,
)
from conformance.model.result import Result
from conformance.model.verdict import KnownNote, Level, Status, Verdict
from conformance.store import TABLES, cases_hash
from tests import report_samples as samples

from .test_store import write


def test_hash_does_not_depend_on_place_and_order(tmp_path):
    first = samples.cases()
    elsewhere = samples.cases(tmp_path / "elsewhere.yaml")
    assert first[0].where != elsewhere[0].where
    assert cases_hash(first) == cases_hash(elsewhere[::-1])
    assert len(cases_hash(first)) == 64


@pytest.mark.parametrize(
    "change",
    [
        {"id": "two/another"},
        {"seed": 7},
        {"outputs": Literal(1)},
        {"needs": frozenset({"random"})},
        {"printed_gradients": {"x": ((1.0,),)}},
        {"printed_gradients": {"x": ((1,),)}},
    ],
)
def test_hash_depends_on_the_program_and_its_verdicts(change):
    first, *rest = samples.cases()
    assert cases_hash([replace(first, **change), *rest]) != cases_hash([first, *rest])


def test_hash_does_not_depend_on_words():
    first, *rest = samples.cases()
    told = replace(first, title="Another", source="a book", why="It is read.", use="everyday")
    assert cases_hash([told, *rest]) == cases_hash([first, *rest])


def test_hash_keeps_types_apart():
    first = samples.cases()[0]
    seen = {
        cases_hash([replace(first, outputs=Literal(value))]) for value in (1, 1.0, True, "1", None)
    }
    assert len(seen) == 5


def test_hash_refuses_what_it_does_not_know():
    with pytest.raises(TypeError, match="no canonical form"):
        cases_hash([replace(samples.cases()[0], printed_gradients={"x": object()})])


# -- queries of the documentation -----------------------------------------------------------------------


def queries() -> list[str]:
    text = (Path(__file__).parents[1] / "docs" / "results.md").read_text("utf-8")
    return [part.partition("```")[0] for part in text.split("```sql\n")[1:]]


def test_each_query_of_the_documentation_answers_its_question(tmp_path):
    note = KnownNote("The region is not traced.", "", "not-traced")
    wrong = Verdict("gradient", Status.FAIL, Level.MUST, "w1 is None", known=note)
    new = Verdict("value", Status.FAIL, Level.MUST, "outputs differ")
    counts = (Execution("conv", "y", "rerun", 2), Execution("conv", "", "rerun", 1))
    seen = Observation(Run(retained=200), Run(retained=50, executions=counts))
    result = Result("basics/conv-relu-gradient", "sample/one", (wrong, new), seen, None, "")
    right = Verdict("gradient", Status.PASS, Level.MUST, "equal")
    fine = replace(result, variant="sample/two", verdicts=(right,))
    path = tmp_path / "sample.db"
    write(path, result, fine)
    case = result.case
    with contextlib.closing(sqlite3.connect(path)) as connection:
        answers = [connection.execute(query).fetchall() for query in queries()]
    assert answers == [
        [(case, "sample/one")],
        [(case, "sample/one", "value", "outputs differ")],
        [("not-traced", 1, "The region is not traced.")],
        [("sample/one", 0.25), ("sample/two", 0.25)],
        [("sample/one", "conv", "y", 2), ("sample/two", "conv", "y", 2)],
    ]


def test_the_tables_of_the_documentation_are_those_of_the_schema():
    text = (Path(__file__).parents[1] / "docs" / "results.md").read_text("utf-8")
    told = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(TABLES.read_text("utf-8"))
        tables = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table'"
        ).fetchall()
        columns = {
            name: {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}
            for (name,) in tables
        }
    assert set(told) == set(columns)
    unsaid = {"id", "run_id", "pair_id", "digest"}
    for name, line in told.items():
        missing = [c for c in columns[name] - unsaid if f"`{c}`" not in line]
        assert missing in ([], ["position"]), name
