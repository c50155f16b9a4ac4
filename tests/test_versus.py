"""Two variants against each other: what differs, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from conformance.cli.app import app
from conformance.errors import ResultsError
from conformance.judge.outcomes import Outcome
from conformance.model.observation import Execution, Run
from conformance.model.verdict import Status
from conformance.report.versus import lines, markdown, program_diff, read_programs, summary, versus
from tests.test_behaviours import LACKS, RAISED, RAN, ran, result, unoffered, verdict

LEFT, RIGHT = "mini/left", "mini/right"
OK = verdict("gradient", Status.PASS)


def both(*pairs):  # type: ignore[no-untyped-def]
    """Results of both variants on cases `a/0`, `a/1`, …: pairs of verdicts of each."""
    found = []
    for number, sides in enumerate(pairs):
        for variant, side in zip((LEFT, RIGHT), sides, strict=True):
            given, run = side if isinstance(side, tuple) else (side, Run())
            found.append(result(RAN, given, case=f"a/{number}", variant=variant, run=run))
    return ran(*found)


def test_only_what_differs_is_said_and_the_gravest_first() -> None:
    none = verdict("gradient", Status.FAIL, "w is None")
    more = verdict("release", Status.FAIL, "8 B more")
    found = versus(LEFT, RIGHT, [both((OK, OK), (more, OK), (OK, none), (OK, none))], ())
    assert [(d.left.text, d.right.text, d.cases) for d in found.differences] == [
        ("right", "silently wrong: w is None", ("a/2", "a/3")),
        ("more memory or work: 8 B more", "right", ("a/1",)),
    ]
    assert summary(found) == "3 cases come out differently, 1 alike."
    assert list(lines(found))[:3] == [
        "a/2 (a/2 and 1 more)",
        "  mini/left: right",
        "  mini/right: silently wrong: w is None",
    ]


def test_the_name_of_a_variant_does_not_hide_that_both_refuse() -> None:
    lacks = [unoffered(LACKS, variant) for variant in (LEFT, RIGHT)]
    here = [result(v, variant=n, case="a/0") for v, n in zip(lacks, (LEFT, RIGHT), strict=True)]
    assert versus(LEFT, RIGHT, [ran(*here)], ()).differences == ()
    raised = verdict("error", Status.FAIL, "raised ValueError")
    found = versus(
        LEFT, RIGHT, [ran(here[0], result(raised, variant=RIGHT, case="a/0", run=RAISED))], ()
    )
    (difference,) = found.differences
    assert (difference.left.text, difference.right.outcome) == (
        "not offered: lacks kwargs (it takes none)",
        Outcome.RAISES,
    )


def test_cases_of_one_alone_are_counted() -> None:
    alone = [result(RAN, OK, case="a/0", variant=LEFT, run=Run())]
    left_out = verdict("error", Status.UNSUPPORTED, "is not run on this case")
    other = [result(left_out, case=c, variant=RIGHT) for c in ("a/0", "a/1")]
    found = versus(LEFT, RIGHT, [ran(*alone, *other)], ())
    assert summary(found) == "0 cases come out differently, 0 alike, 1 run on mini/left alone."


def test_numbers_that_both_have_and_that_differ_are_shown() -> None:
    def seen(variant: str, again: int):  # type: ignore[no-untyped-def]
        run = Run(
            executions=(Execution("b", "h", "forward", 2), Execution("b", "h", "rerun", again))
        )
        passed = verdict("executions", Status.PASS)
        return result(RAN, passed, case="basics/mlp-block", variant=variant, run=run)

    found = versus(LEFT, RIGHT, [ran(seen(LEFT, 1), seen(RIGHT, 2))], ())
    assert "Runs again: mini/left 0.5×, mini/right 1.0×" in list(lines(found))


def test_an_unknown_variant_is_named_with_what_is_near() -> None:
    with pytest.raises(ResultsError, match="no results of 'mini/lefd'") as caught:
        versus("mini/lefd", RIGHT, [both((OK, OK))], ())
    assert "did you mean 'mini/left'?" in str(caught.value)


def test_markdown_shows_what_differs_between_programs_and_stays_text(tmp_path: Path) -> None:
    (tmp_path / "l.py").write_text('"""Left."""\n\ndef f(x):\n    return g(x, old=1)\n', "utf-8")
    (tmp_path / "r.py").write_text('"""Right."""\n\ndef f(x):\n    return g(x)\n', "utf-8")
    wrong = verdict("gradient", Status.FAIL, "<script>|")
    one = result(RAN, wrong, case="a/0", variant=LEFT, run=Run())
    two = result(RAN, OK, case="a/0", variant=RIGHT, run=Run())
    from dataclasses import replace

    results = [ran(replace(one, program="l.py"), replace(two, program="r.py"))]
    found = versus(LEFT, RIGHT, results, ())
    text = "\n".join(markdown(found, read_programs(found, results, tmp_path)))
    assert "-    return g(x, old=1)\n+    return g(x)" in text
    assert "Left" not in text
    assert "\\<script\\>\\|" in text
    outside = [ran(replace(one, program="../l.py"), replace(two, program="r.py"))]
    (tmp_path / "in").mkdir()
    assert read_programs(found, outside, tmp_path / "in") == {}
    assert "```" not in "".join(program_diff("\ndef a():\n    '```'\n", "\ndef a():\n    pass\n"))


def test_the_command_says_what_is_not_there(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["compare", "a/b", "a/c", "--reports", str(tmp_path)])
    assert found.exit_code != 0
