"""The page of behaviours: made from results alone, every case of it exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.judge.checks import CHECKS
from conformance.model.facts import Calls, Difference, Fact, State, Unoffered
from conformance.model.observation import Execution, Observation, Run
from conformance.model.verdict import KnownNote, Level, Status, Verdict
from conformance.report.behaviours import BEHAVIOURS, LONGEST, answer, render
from conformance.results import Header, Result, Results, make_footer
from tests.suite_cases import CASES

ROOT = Path(__file__).parent.parent


def result(
    *verdicts: Verdict,
    case: str = "hooks/parameter",
    variant: str = "mini/right",
    known: tuple[KnownNote, ...] = (),
    run: Run | None = None,
) -> Result:
    seen = None if run is None else Observation(Run(), run, {}, {}, 0.0)
    return Result(case, variant, verdicts, seen, None, "", known)


def verdict(check: str, status: Status, message: str, *facts: Fact) -> Verdict:
    return Verdict(check, status, CHECKS[check].level, message, facts=facts)


def test_every_case_and_check_of_a_behaviour_exists_and_belongs_together() -> None:
    from conformance.judge.checks import applicable

    by_name: dict[str, list[str]] = {}
    for case in CASES:
        by_name.setdefault(case.id.partition("[")[0], []).extend(applicable(case))
    for behaviour in BEHAVIOURS:
        for name in behaviour.cases:
            assert behaviour.check in by_name[name], (behaviour.title, name)
    assert len({b.title for b in BEHAVIOURS}) == len(BEHAVIOURS)


@pytest.mark.parametrize(
    ("shown", "check", "text"),
    [
        (
            result(verdict("hooks", Status.PASS, "every hook was called")),
            "hooks",
            "*pass*: every hook was called",
        ),
        (
            result(
                verdict("hooks", Status.FAIL, "called 2 time(s)"),
                known=(KnownNote("hooks", "it is so", "https://example.org/1"),),
            ),
            "hooks",
            "*known*: called 2 time\\(s\\) <https://example.org/1>",
        ),
        (
            result(
                verdict("hooks", Status.FAIL, "called 2 time(s)"),
                known=(KnownNote("hooks", "it is so", "javascript:alert(1)"),),
            ),
            "hooks",
            "*known*: called 2 time\\(s\\)",
        ),
        (
            result(verdict("error", Status.FAIL, "raised <b>ValueError</b>")),
            "hooks",
            "*fail*: raised \\<b\\>ValueError\\</b\\>",
        ),
        (
            result(
                verdict(
                    "error",
                    Status.UNSUPPORTED,
                    "mini/right lacks hooks (it has none)",
                    Unoffered("lacks", "hooks (it has none)", ("hooks",)),
                )
            ),
            "hooks",
            "*unsupported*: lacks hooks \\(it has none\\)",
        ),
        (
            result(
                verdict(
                    "state",
                    Status.REPORT,
                    "the rerun has left its mark, too",
                    State("m", "(2,) [2, 2]", "(2,) [1, 1]", 2.0),
                    State("n", "(2,) [3, 3]", "(2,) [1, 1]", 3.0),
                    State("o", "(2,) [2, 2]", "(2,) [1, 1]", 2.0),
                )
            ),
            "state",
            "*report*: state moves 2.00 and 3.00 times as far as without recompute",
        ),
        (
            result(
                verdict(
                    "state",
                    Status.REPORT,
                    "the rerun has left its mark, too",
                    Calls("noted", 3, 1),
                )
            ),
            "state",
            "*report*: it happens 3 times, without recompute 1 time\\(s\\)",
        ),
        (
            result(
                verdict(
                    "gradient",
                    Status.FAIL,
                    "gradient with respect to x differs in 3 of 4 elements",
                    Difference("gradient", "x", "elements", "plain run", wrong=3, size=4),
                )
            ),
            "gradient",
            "*fail*: gradient with respect to x differs \\(plain run\\)",
        ),
        (
            result(
                verdict("executions", Status.PASS, "as under whole"),
                run=Run(
                    executions=(
                        Execution("block", "", "rerun", 1),
                        Execution("block", "h", "forward", 1),
                        Execution("block", "h", "rerun", 1),
                        Execution("block", "y", "rerun", 0),
                    )
                ),
            ),
            "executions",
            "*pass*: runs again: h 1, y 0",
        ),
        (result(), "hooks", "no verdict"),
    ],
)
def test_an_answer_says_what_was_seen(shown: Result, check: str, text: str) -> None:
    assert answer(shown, check) == text


def test_where_a_run_was_made_is_not_said() -> None:
    message = 'in "/home/someone/my-reports/programs/paddle/sequential/errors/not.py", line 7'
    found = answer(result(verdict("hooks", Status.FAIL, message)), "hooks")
    assert found == '*fail*: in "programs/paddle/sequential/errors/not.py", line 7'


def test_a_long_message_is_cut_between_words() -> None:
    found = answer(result(verdict("hooks", Status.FAIL, "word " * 100)), "hooks")
    assert found.endswith("word …")
    assert len(found) <= LONGEST + len("*fail*:  …")


def test_the_page_groups_variants_under_what_was_seen() -> None:
    passed = verdict("hooks", Status.PASS, "called once")
    failed = verdict("hooks", Status.FAIL, "called twice")
    listed = (
        result(passed, variant="mini/a"),
        result(passed, variant="mini/b"),
        result(failed, variant="mini/c"),
    )
    header = Header("1", "mini", ("mini/a", "mini/b", "mini/c"), {}, {"numpy": "2"}, "x")
    page = render([Results(Path("mini.jsonl"), header, listed, make_footer(listed, {}))])
    assert "| hooks/parameter | *pass*: called once | mini/a, mini/b |" in page
    assert "| hooks/parameter | *fail*: called twice | mini/c |" in page
    assert "- mini: numpy 2" in page
    assert "No run has one of its cases." in page


def test_levels_are_words_of_the_page() -> None:
    assert {c.level for c in CHECKS.values()} <= {Level.MUST, Level.SHOULD, Level.REPORT}
