"""Run after run: what appeared, what went, and with which version."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from typer.testing import CliRunner

from conformance.cli.app import app
from conformance.model.observation import Run
from conformance.model.verdict import Status
from conformance.report.history import RunSnapshot, histories, render, run_snapshot
from conformance.results import Results, write
from tests.report_samples import known
from tests.test_behaviours import RAISED, RAN, ran, result, verdict

WRONG = verdict("gradient", Status.FAIL, "gradient of x is <wrong>")
FINE = result(RAN, verdict("gradient", Status.PASS), run=Run())
BAD = result(known(WRONG, "it is <dropped>"), run=Run())
OTHER = result(RAN, run=Run(), case="b/b")


def at(day: int, version: str, *found: object) -> Results:
    run = ran(*found)  # type: ignore[arg-type]
    header = replace(
        run.header, versions={"numpy": "2", "minilib": version}, started=f"2026-11-{day:02}T00:00"
    )
    return replace(run, header=header)


def shots(*runs: Results) -> list[RunSnapshot]:
    return [run_snapshot(f"r{number}", run) for number, run in enumerate(runs, 1)]


def test_a_change_is_told_with_the_version_that_brought_it() -> None:
    (found,) = histories(shots(at(1, "1.2", FINE, OTHER), at(2, "1.3", BAD, OTHER)))
    (row,) = found.changes
    assert row.what == "it is <dropped>"
    assert row.where == ("captures/frozen-input on mini/right",)
    assert row.story == "silently wrong with 1.3 (r2), before that right"
    assert row.cells == ("✓ right", "✗ silently wrong")
    (answer,) = found.answers
    assert answer.cells == ("✓ yes", "✗ silently wrong")


def test_what_changes_within_a_version_is_no_change_of_the_framework() -> None:
    (found,) = histories(shots(at(1, "1.2", BAD), at(2, "1.2", FINE)))
    assert found.changes[0].story == "right in r2, the same version, before that silently wrong"


def test_versions_that_are_run_by_turns_stay_apart() -> None:
    """Each night both are run: nothing has changed in either."""
    runs = shots(at(1, "1.2", BAD), at(1, "1.3", FINE), at(2, "1.2", BAD), at(2, "1.3", FINE))
    (found,) = histories(runs)
    assert found.versions == (("1.2", 2), ("1.3", 2))
    assert [one.run for one in found.shots] == ["r1", "r3", "r2", "r4"]
    assert found.changes[0].story == "right with 1.3 (r2), before that silently wrong"


def test_what_was_not_run_has_not_gone() -> None:
    (found,) = histories(shots(at(1, "1.2", BAD, OTHER), at(2, "1.2", OTHER), at(3, "1.2", BAD)))
    assert found.changes == ()
    assert [finding.words for finding in found.always] == ["it is <dropped>"]


def test_the_worst_says_what_it_is() -> None:
    raises = result(verdict("error", Status.FAIL, "raised"), run=RAISED)
    (found,) = histories(shots(at(1, "1.2", BAD), at(2, "1.3", raises)))
    assert found.changes[0].what == "it is <dropped>"


def test_the_page_escapes_and_the_command_leaves_out_what_it_cannot_read(tmp_path: Path) -> None:
    page = render(histories(shots(at(1, "<1.2>", BAD), at(2, "1.3", FINE))))
    assert "it is &lt;dropped&gt;" in page
    assert "<1.2>" not in page
    for name, run in (("a", at(1, "1.2", BAD)), ("b", at(2, "1.3", FINE))):
        (tmp_path / "runs" / name).mkdir(parents=True)
        write(tmp_path / "runs" / name / "mini.jsonl", run.header, run.results, run.footer)
    (tmp_path / "runs" / "c").mkdir()
    (tmp_path / "runs" / "c" / "mini.jsonl").write_text('{"type":"header","format":1}\n')
    done = CliRunner().invoke(app, ["history", str(tmp_path / "runs")])
    assert done.exit_code == 0
    assert "mini: 2 runs (1.2: 1, 1.3: 1)" in done.output
    assert "left out:" in done.output
    file = tmp_path / "history.html"
    done = CliRunner().invoke(app, ["history", str(tmp_path / "runs"), "--output", str(file)])
    assert done.exit_code == 0
    assert file.read_text("utf-8").startswith("<!doctype html>")
