"""Results beside each other: two variants, two runs, many runs; what belongs together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from conformance.cli.app import app
from conformance.compare.beside import SideBySide, of_variant, run_by_run, side_by_side
from conformance.compare.written import lines, program_diff, read_programs, summary
from conformance.errors import ComparisonError, ConformanceError, ResultsError
from conformance.judge.outcomes import Outcome
from conformance.model.facts import Unoffered
from conformance.model.observation import Execution, Run
from conformance.model.result import Result, Results
from conformance.model.verdict import Status, Verdict
from tests.report_samples import stored
from tests.test_behaviours import LACKS, RAISED, RAN, ran, result, unoffered, verdict

LEFT, RIGHT = "mini/left", "mini/right"
OK = verdict("gradient", Status.PASS)
WRONG = verdict("gradient", Status.FAIL, "w is None")
NOT_RUN = unoffered(Unoffered("not run", "another variant does the same"))


def one(found: Verdict, case: str = "a/a", run: Run | None = None, variant: str = RIGHT) -> Result:
    return result(RAN, found, case=case, run=run or Run(), variant=variant)


def versioned(run: Results, version: str) -> Results:
    return replace(run, header=replace(run.header, versions={"numpy": "2", "minilib": version}))


def variants(left: Sequence[Verdict], right: Sequence[Verdict]) -> SideBySide:
    """Two variants on the cases `a/0`, `a/1`, …: the verdicts of each."""
    of_left, of_right = (
        [one(found, f"a/{number}", variant=variant) for number, found in enumerate(verdicts)]
        for variant, verdicts in ((LEFT, left), (RIGHT, right))
    )
    return side_by_side(of_left, of_right, ())


# -- two variants ----------------------------------------------------------------------------------


def test_rows_are_what_differs_sorted_by_severity() -> None:
    more = verdict("release", Status.FAIL, "8 B more")
    found = variants((OK, more, OK, OK), (OK, OK, WRONG, WRONG))
    assert [([s.text for s in row.sides], row.where) for row in found.rows] == [
        (["right", "silently wrong: w is None"], ("a/2", "a/3")),
        (["more memory or work: 8 B more", "right"], ("a/1",)),
    ]
    assert summary(found) == "3 cases differ, 1 the same."
    assert list(lines(found))[:3] == [
        "a/2 and 1 more",
        "  mini/left: right",
        "  mini/right: silently wrong: w is None",
    ]


def test_the_name_of_a_variant_does_not_hide_that_both_refuse() -> None:
    left, right = (
        result(unoffered(LACKS, name), variant=name, case="a/0") for name in (LEFT, RIGHT)
    )
    assert side_by_side([left], [right], ()).rows == ()
    raised = verdict("error", Status.FAIL, "raised ValueError")
    found = side_by_side([left], [result(raised, variant=RIGHT, case="a/0", run=RAISED)], ())
    (row,) = found.rows
    assert row.sides[0].text == "not offered: lacks kwargs (it takes none)"
    assert row.sides[1].outcome is Outcome.RAISES


def test_cases_of_one_variant_alone_are_counted() -> None:
    left_out = [result(NOT_RUN, case=c, variant=RIGHT) for c in ("a/0", "a/1")]
    found = side_by_side([one(OK, "a/0", variant=LEFT)], left_out, ())
    assert summary(found) == "no cases differ, 0 the same, 1 not run in mini/right."


def test_an_unknown_variant_is_named_with_what_is_near() -> None:
    with pytest.raises(ResultsError, match="no results of 'mini/rihgt'") as caught:
        of_variant("mini/rihgt", [ran(one(OK))])
    assert "did you mean 'mini/right'?" in str(caught.value)


def test_markdown_shows_what_differs_between_programs_and_stays_text(tmp_path: Path) -> None:
    (tmp_path / "l.py").write_text('"""Left."""\n\ndef f(x):\n    return g(x, old=1)\n', "utf-8")
    (tmp_path / "r.py").write_text('"""Right."""\n\ndef f(x):\n    return g(x)\n', "utf-8")
    wrong = one(verdict("gradient", Status.FAIL, "<script>|"), variant=LEFT)
    left, right = replace(wrong, program="l.py"), replace(one(OK), program="r.py")
    found = side_by_side([left], [right], ())
    programs = read_programs(found, [ran(left, right)], tmp_path)
    text = "\n".join(lines(found, in_markdown=True, programs=programs))
    assert "-    return g(x, old=1)\n+    return g(x)" in text
    assert "Left" not in text
    assert "\\<script\\>\\|" in text
    outside = [ran(replace(left, program="../l.py"), right)]
    (tmp_path / "in").mkdir()
    assert read_programs(found, outside, tmp_path / "in") == {}
    assert "```" not in "".join(program_diff("\ndef a():\n    '```'\n", "\ndef a():\n    pass\n"))


# -- runs ------------------------------------------------------------------------------------------


def test_worse_and_better_are_told_apart_and_versions_named() -> None:
    old = versioned(ran(one(OK), one(WRONG, "a/b"), one(OK, "a/c")), "1.2")
    new = versioned(ran(one(WRONG), one(OK, "a/b"), one(OK, "a/c")), "1.3")
    found = run_by_run({"old": [old], "new": [new]})
    assert [row.where for row in found.changed("worse")] == [("a/a on mini/right",)]
    assert [row.where for row in found.changed("better")] == [("a/b on mini/right",)]
    assert summary(found) == "1 worse, 1 better, no numbers changed, 1 the same."
    assert list(lines(found))[:5] == [
        "mini: minilib 1.2 → 1.3",
        "",
        "worse: a/a on mini/right",
        "  old: right",
        "  new: silently wrong: w is None",
    ]


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        (result(unoffered(LACKS), case="a/a"), one(OK), "better"),
        (one(OK), result(unoffered(LACKS), case="a/a"), "worse"),
        (result(unoffered(LACKS), case="a/a"), one(WRONG), "worse"),
        (one(WRONG), result(verdict("error", Status.FAIL), case="a/a", run=RAISED), "better"),
    ],
)
def test_what_is_offered_no_more_is_worse(old: Result, new: Result, change: str) -> None:
    (row,) = run_by_run({"old": [ran(old)], "new": [ran(new)]}).rows
    assert row.change == change


def test_counts_and_bytes_that_changed_are_named() -> None:
    def seen(again: int, retained: int, peak: int) -> list[Results]:
        counts = (Execution("b", "h", "rerun", again), Execution("b", "h", "forward", 1))
        return [ran(one(OK, run=Run(executions=counts, retained=retained, peak=peak)))]

    found = run_by_run({"old": seen(1, 1000, 500), "new": seen(2, 1010, 900)})
    assert [(m.what, m.values) for m in found.measured] == [
        ("a/a on mini/right: bytes at the peak", ("500", "900")),
        ("a/a on mini/right: h of b runs again, times", ("1", "2")),
    ]
    assert found.same == 0


def test_what_only_one_run_has_is_counted() -> None:
    old, new = ran(one(OK), one(OK, "a/b")), ran(one(OK), one(OK, "a/c"), one(OK, "a/d"))
    found = run_by_run({"old": [old], "new": [new]})
    assert found.absent == {"old": 2, "new": 1}
    assert summary(found).endswith("1 the same, 2 not run in old, 1 not run in new.")


def test_of_many_runs_each_is_a_column() -> None:
    stays = one(OK, "a/c")
    found = run_by_run(
        {
            "1": [ran(one(OK), one(WRONG, "a/b"), stays)],
            "2": [ran(one(WRONG), one(OK, "a/b"), stays)],
            "3": [ran(one(OK), one(OK, "a/b"), stays)],
            "4": [ran(one(WRONG, "a/b"), stays)],
        }
    )
    wanted = "1 worse, 0 better, 1 changed before, no numbers changed, 1 the same, 1 not run in 4."
    assert summary(found) == wanted
    rows = [line.split("|")[1:-1] for line in lines(found) if line.startswith("| a/")]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["a/b on mini/right", "✗ silently wrong", "✓ right", "✓ right", "✗ silently wrong"],
        ["a/a on mini/right", "✓ right", "✗ silently wrong", "✓ right", ""],
    ]


def test_runs_of_other_adapters_or_cases_do_not_belong_together() -> None:
    run = ran(one(OK))
    other = replace(run, header=replace(run.header, adapter="other"))
    with pytest.raises(
        ComparisonError, match="the runs have no adapter in common: mini in old; other in new"
    ):
        run_by_run({"old": [run], "new": [other]})
    with pytest.raises(ComparisonError, match="both results of adapter 'mini'"):
        run_by_run({"old": [run], "new": [run, run]})
    changed = replace(run, header=replace(run.header, cases="y"))
    with pytest.raises(ComparisonError, match="results of different cases"):
        run_by_run({"old": [run], "new": [changed]})


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, str]:
    """Runs in folders of their own: `old` is right, `new` is wrong."""
    for name, found in (("old", OK), ("new", WRONG)):
        (tmp_path / name).mkdir()
        run = ran(one(found), one(OK, variant=LEFT))
        stored(tmp_path / name / "mini.db", run)
    return {name: str(tmp_path / name) for name in ("old", "new")}


def test_the_exit_status_says_whether_something_is_worse(folders: dict[str, str]) -> None:
    old, new = folders["old"], folders["new"]
    runner = CliRunner()
    worse = runner.invoke(app, ["compare", old, f"{new}/mini.db"])
    assert worse.exit_code == 1
    assert "worse: a/a on mini/right" in worse.output
    assert runner.invoke(app, ["compare", new, old]).exit_code == 0
    many = runner.invoke(app, ["compare", old, f"{old}/mini.db", new])
    assert many.exit_code == 1
    assert "✓ right" in many.output
    for words in ([old, f"{old}/gone"], [old, old], ["mini/none", "mini/right"]):
        refused = runner.invoke(app, ["compare", *words])
        assert isinstance(refused.exception, ConformanceError)


def test_variants_of_runs_on_other_cases_are_not_compared(tmp_path: Path) -> None:
    for name, cases in (("mini", "x"), ("other", "y")):
        run = ran(one(OK, variant=f"{name}/right"))
        header = replace(run.header, adapter=name, cases=cases)
        stored(tmp_path / f"{name}.db", replace(run, header=header))
    words = ["compare", "mini/right", "other/right", "--reports", str(tmp_path)]
    refused = CliRunner().invoke(app, words)
    assert isinstance(refused.exception, ComparisonError)
    assert "results of different cases" in str(refused.exception)


def test_each_comparison_can_be_written_as_json(folders: dict[str, str]) -> None:
    new = folders["new"]
    for words in ([LEFT, RIGHT, "--reports", new], [folders["old"], new]):
        found = CliRunner().invoke(app, ["compare", *words, "--format", "json"])
        value = json.loads(found.stdout)
        assert value["rows"][0]["sides"][1] == {
            "outcome": "silently wrong",
            "message": "w is None",
        }
