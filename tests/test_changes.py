"""What changed between two runs: worse, better, measured otherwise, versions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conformance.cli.app import app
from conformance.errors import ResultsError
from conformance.judge.outcomes import Outcome
from conformance.model.observation import Execution, Run
from conformance.model.verdict import Status, Verdict
from conformance.report.changes import changes, lines, summary
from conformance.results import Result, Results, write
from tests.test_behaviours import LACKS, RAISED, RAN, ran, result, unoffered, verdict

OK = verdict("gradient", Status.PASS)
WRONG = verdict("gradient", Status.FAIL, "w is None")
OFFERS_NONE = unoffered(LACKS)


def one(found: Verdict, case: str = "a/a", run: Run | None = None) -> Result:
    return result(RAN, found, case=case, run=run or Run())


def versioned(run: Results, version: str) -> Results:
    header = replace(run.header, versions={"numpy": "2", "minilib": version})
    return replace(run, header=header)


def test_worse_and_better_are_told_apart_and_versions_named() -> None:
    old = versioned(ran(one(OK), one(WRONG, "a/b"), one(OK, "a/c")), "1.2")
    new = versioned(ran(one(WRONG), one(OK, "a/b"), one(OK, "a/c")), "1.3")
    found = changes([old], [new])
    assert [(c.case, c.new.outcome) for c in found.worse] == [("a/a", Outcome.WRONG)]
    assert [(c.case, c.old.outcome) for c in found.better] == [("a/b", Outcome.WRONG)]
    assert found.versions == {"mini: minilib": ("1.2", "1.3")}
    assert summary(found) == "1 worse, 1 better, 0 numbers differ, 1 as before."
    assert list(lines(found))[:4] == [
        "mini: minilib 1.2 → 1.3",
        "worse: a/a on mini/right",
        "  was right",
        "  now silently wrong: w is None",
    ]


@pytest.mark.parametrize(
    ("old", "new", "worse"),
    [
        (result(OFFERS_NONE, case="a/a"), one(OK), False),
        (one(OK), result(OFFERS_NONE, case="a/a"), True),
        (result(OFFERS_NONE, case="a/a"), one(WRONG), True),
        (one(WRONG), result(verdict("error", Status.FAIL), case="a/a", run=RAISED), False),
    ],
)
def test_what_is_offered_no_more_is_worse(old: Result, new: Result, worse: bool) -> None:
    (change,) = changes([ran(old)], [ran(new)]).changes
    assert change.worse is worse


def test_counts_and_bytes_that_changed_are_named() -> None:
    def seen(again: int, retained: int, peak: int) -> Run:
        counts = (Execution("b", "h", "rerun", again), Execution("b", "h", "forward", 1))
        return Run(executions=counts, retained=retained, peak=peak)

    found = changes([ran(one(OK, run=seen(1, 1000, 500)))], [ran(one(OK, run=seen(2, 1010, 900)))])
    assert [(m.what, m.old, m.new) for m in found.measured] == [
        ("h of b runs again, times", 1, 2),
        ("bytes at the peak", 500, 900),
    ]
    assert (found.same, found.worse) == (0, ())


def test_what_only_one_run_has_is_counted() -> None:
    found = changes([ran(one(OK), one(OK, "a/b"))], [ran(one(OK), one(OK, "a/c"))])
    assert (found.gone, found.added) == ((("a/b", "mini/right"),), (("a/c", "mini/right"),))
    assert summary(found).endswith("1 as before, 1 not run any more, 1 new.")


def test_runs_of_other_adapters_do_not_belong_together() -> None:
    other = ran(one(OK))
    other = replace(other, header=replace(other.header, adapter="other"))
    with pytest.raises(ResultsError, match="no adapter in common: mini before, other now"):
        changes([ran(one(OK))], [other])


def test_the_exit_status_says_whether_something_is_worse(tmp_path: Path) -> None:
    for name, found in (("old", OK), ("new", WRONG)):
        (tmp_path / name).mkdir()
        run = ran(one(found))
        write(tmp_path / name / "mini.jsonl", run.header, run.results, run.footer)
    old, new = str(tmp_path / "old"), str(tmp_path / "new" / "mini.jsonl")
    runner = CliRunner()
    assert runner.invoke(app, ["diff", old, new]).exit_code == 1
    assert runner.invoke(app, ["diff", new, old]).exit_code == 0
    missing = runner.invoke(app, ["diff", old, str(tmp_path / "gone")])
    assert isinstance(missing.exception, ResultsError)
