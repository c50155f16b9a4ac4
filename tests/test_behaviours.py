"""What users ask: outcomes by severity, answers to questions, findings, and what variants cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from conformance.errors import AdapterError
from conformance.judge.checks import CHECKS, applicable
from conformance.judge.outcomes import MEANING, SIGN, Outcome, gravest, of_result
from conformance.model.case import Use
from conformance.model.facts import Fact, Inert, Unoffered
from conformance.model.observation import (
    ErrorSeen,
    Execution,
    Expected,
    ExpectedMemory,
    Observation,
    Run,
)
from conformance.model.result import Header, Result, Results
from conformance.model.verdict import KnownNote, Level, Status, Verdict
from conformance.report.costs import PROGRAM, SECONDS, Cost, cost, read_seconds
from conformance.report.findings import Section, findings, tally
from conformance.report.overview import Background, frameworks
from conformance.report.questions import QUESTIONS, Answer, Question, answer, answers
from tests.report_samples import known
from tests.suite_cases import CASES

RAISED = Run(error=ErrorSeen("ValueError", ("ValueError",), "no", "backward"))
AGAIN = Run(executions=(Execution("b", "", "rerun", 1), Execution("b", "h", "rerun", 1)))
IDLE = Run(executions=(Execution("b", "", "forward", 1), Execution("b", "", "rerun", 0)))


def verdict(check: str, status: Status, message: str = "so it is", *facts: Fact) -> Verdict:
    return Verdict(check, status, CHECKS[check].level, message, facts=facts)


LACKS = Unoffered("lacks", "kwargs (it takes none)", ("kwargs",))
REFUSES = Unoffered("refuses", "kwargs: ValueError: no", ("kwargs",))


def unoffered(fact: Unoffered, variant: str = "mini/right") -> Verdict:
    return verdict("error", Status.UNSUPPORTED, f"{variant} {fact.words}", fact)


RAN = verdict("error", Status.PASS, "ran without an error")


def result(
    *verdicts: Verdict,
    case: str = "captures/frozen-input",
    variant: str = "mini/right",
    run: Run | None = None,
    plain: Run | None = None,
    expected: Expected | None = None,
) -> Result:
    seen = None if run is None else Observation(plain or Run(), run)
    return Result(case, variant, verdicts, seen, expected, "")


def ran(*found: Result, variants: tuple[str, ...] = ()) -> Results:
    names = variants or tuple(dict.fromkeys(r.variant for r in found))
    header = Header("1", "mini", names, {}, {"numpy": "2", "minilib": "1.2"}, "x")
    return Results(Path("mini.db"), header, found)


PLAIN = Run(retained=800, peak=1000)
RECOMPUTED = Run(
    retained=100,
    peak=400,
    executions=(
        Execution("b", "", "forward", 1),
        Execution("b", "h", "forward", 2),
        Execution("b", "h", "rerun", 1),
    ),
)
WRONG = verdict("gradient", Status.FAIL, "gradient of x is <wrong>")
UNMOVED = verdict("executions", Status.FAIL, "inert", Inert("b", "h", (1,)))


# -- outcomes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "outcome"),
    [
        (result(RAN, verdict("gradient", Status.PASS), run=Run()), Outcome.RIGHT),
        (result(RAN, verdict("gradient", Status.REPORT), run=Run()), Outcome.RIGHT),
        (result(RAN, verdict("gradient", Status.FAIL), run=Run()), Outcome.WRONG),
        (result(RAN, verdict("structure", Status.FAIL), run=Run()), Outcome.WRONG),
        (result(RAN, known(WRONG, "as documented", kind="limit"), run=Run()), Outcome.LIMIT),
        (result(RAN, known(WRONG, "it forgets", kind="choice"), run=Run()), Outcome.WRONG),
        (result(verdict("error", Status.FAIL), run=RAISED), Outcome.RAISES),
        (result(verdict("error", Status.FAIL), run=Run()), Outcome.WRONG),  # nothing was raised
        (result(verdict("error", Status.CRASHED)), Outcome.RAISES),
        (result(verdict("error", Status.TIMEOUT)), Outcome.RAISES),
        (result(unoffered(REFUSES), run=RAISED), Outcome.RAISES),
        (result(unoffered(LACKS)), Outcome.NOT_OFFERED),
        (result(unoffered(Unoffered("not run", "another does"))), Outcome.NOT_RUN),
        (result(verdict("error", Status.BROKEN)), Outcome.BROKEN),
        (result(RAN, UNMOVED, run=IDLE), Outcome.INERT),
        (result(RAN, verdict("executions", Status.FAIL), run=AGAIN), Outcome.COSTS),
        (result(RAN, verdict("retained memory", Status.FAIL), run=IDLE), Outcome.COSTS),
        (result(RAN, verdict("release", Status.WARN), run=Run()), Outcome.COSTS),
        (result(RAN, verdict("state", Status.WARN), run=Run()), Outcome.WARNS),
        (result(RAN, verdict("peak memory", Status.UNSUPPORTED), run=Run()), Outcome.RIGHT),
        (
            result(RAN, verdict("gradient", Status.FAIL), verdict("value", Status.WARN), run=Run()),
            Outcome.WRONG,
        ),
    ],
)
def test_an_outcome_is_the_most_severe_of_a_result(shown: Result, outcome: Outcome) -> None:
    assert of_result(shown) is outcome


def test_that_it_ran_says_nothing_of_what_is_asked() -> None:
    shown = result(RAN, verdict("peak memory", Status.UNSUPPORTED), run=Run())
    assert of_result(shown, frozenset({"peak memory"})) is Outcome.UNSEEN
    assert of_result(result(RAN, run=Run()), frozenset({"peak memory"})) is Outcome.UNSEEN
    raised = result(verdict("error", Status.FAIL), run=RAISED)
    assert of_result(raised, frozenset({"peak memory"})) is Outcome.RAISES


def test_every_outcome_has_a_meaning_and_a_sign_of_its_own() -> None:
    assert set(MEANING) == set(SIGN) == set(Outcome)
    assert len(set(SIGN.values())) == len(Outcome)
    assert gravest([Outcome.RIGHT, Outcome.WRONG, Outcome.NOT_RUN]) is Outcome.WRONG
    assert gravest([]) is Outcome.UNSEEN


# -- questions -------------------------------------------------------------------------------------


def test_every_case_of_a_question_exists_and_has_a_check_of_it() -> None:
    by_name: dict[str, set[str]] = {}
    for case in CASES:
        by_name.setdefault(case.id.partition("[")[0], set()).update(applicable(case))
    for question in QUESTIONS:
        for name in question.cases:
            assert by_name[name] & question.checks, (question.title, name)
        assert question.checks <= set(CHECKS)
    assert len({q.title for q in QUESTIONS}) == len(QUESTIONS)


ASKED = Question("Frozen", "?", ("captures/frozen-input", "structure/no-arguments"))


def test_an_answer_is_that_of_the_worst_case() -> None:
    right = result(RAN, verdict("gradient", Status.PASS), run=Run())
    wrong = verdict("gradient", Status.FAIL, "w is None")
    worse = result(RAN, wrong, case="structure/no-arguments", run=Run())
    assert answer(ASKED, [right]) == Answer(
        Outcome.RIGHT, "right", "captures/frozen-input", "so it is"
    )
    found = answer(ASKED, [right, worse])
    assert found == Answer(Outcome.WRONG, "silently wrong", "structure/no-arguments", "w is None")
    assert found.text == "✗ silently wrong"


def test_all_expansions_of_a_case_answer() -> None:
    question = QUESTIONS.index(_question("Frozen first input"))
    wrong = result(
        RAN, verdict("gradient", Status.FAIL), case="structure/no-arguments[n=1]", run=Run()
    )
    other = result(RAN, verdict("gradient", Status.FAIL), case="structure/elsewhere", run=Run())
    found = answers([result(RAN, run=Run()), wrong, other])
    assert (found[question].outcome, found[question].case) == (Outcome.WRONG, wrong.case)


def test_what_is_refused_not_offered_or_not_run_is_told_apart() -> None:
    lacks = unoffered(LACKS)
    assert answer(ASKED, [result(unoffered(REFUSES), run=RAISED)]).word == "raises"
    assert answer(ASKED, [result(lacks)]).word == "not offered"
    assert answer(ASKED, [result(lacks, run=RAISED, plain=RAISED)]).word == "not offered"
    assert answer(ASKED, [result(verdict("error", Status.UNSUPPORTED))]).word == "not offered"
    assert answer(ASKED, []).word == "not run"
    right = result(RAN, verdict("gradient", Status.PASS), run=Run())
    assert answer(ASKED, [right, result(lacks, case="structure/no-arguments")]).word == "right"


def test_that_nesting_is_refused_answers_no_other_question() -> None:
    refused = unoffered(Unoffered("refuses", "nested-regions: ValueError: no", ("nested-regions",)))
    nested = result(refused, case="structure/no-arguments", run=RAISED)
    right = result(RAN, verdict("gradient", Status.PASS), run=Run())
    assert answer(ASKED, [right, nested]).word == "right"
    assert answer(ASKED, [nested]).word == "raises"


def _question(title: str) -> Question:
    return next(question for question in QUESTIONS if question.title == title)


def test_numbers_are_the_worst_of_what_was_measured() -> None:
    memory = ExpectedMemory((800, 800), (200, 200), 600, 100)
    expected = Expected(None, None, None, None, None, None, {}, memory, None)
    passed, failed = (verdict("retained memory", s) for s in (Status.PASS, Status.FAIL))

    def kept(case: str, nbytes: int, found: Verdict) -> Result:
        run, plain = Run(retained=nbytes), Run(retained=800)
        return result(RAN, found, case=case, run=run, plain=plain, expected=expected)

    question = _question("Memory freed")
    all_of_it = kept("memory/chain-each", 200, passed)
    assert answer(question, [all_of_it]).text == "✓ 100 %"
    found = answer(question, [all_of_it, kept("memory/chain-whole", 500, failed)])
    assert (found.text, found.case) == ("△ 50 %", "memory/chain-whole")
    assert answer(question, [kept("memory/chain-whole", 900, failed)]).text == "△ 0 %"


def test_statistics_move_in_multiples_of_the_plain_step() -> None:
    plain, twice = ({"running_mean": np.array([n, 0], np.float32)} for n in (0.5, -1.0))
    shown = result(
        RAN,
        verdict("state", Status.WARN),
        case="state/batch-norm",
        run=Run(state=twice),
        plain=Run(state=plain),
    )
    assert answer(_question("BatchNorm's statistics"), [shown]).text == "≈ 2.0×"


def test_what_runs_again_is_counted_by_operation() -> None:
    counts = [("", "forward", 2), ("h", "forward", 2), ("y", "forward", 2), ("h", "rerun", 3)]
    run = Run(executions=tuple(Execution("b", s, phase, n) for s, phase, n in counts))  # type: ignore[arg-type]
    shown = result(
        RAN, verdict("executions", Status.PASS), case="nested/depth-3-region-first", run=run
    )
    assert answer(_question("Recomputed, nested"), [shown]).text == "✓ 0.8×"


# -- what is made of them --------------------------------------------------------------------------


def test_findings_of_one_cause_stand_together_sorted_by_severity() -> None:
    wrong = known(verdict("gradient", Status.FAIL), "it forgets", "https://example.org/1")
    costs = verdict("release", Status.FAIL, "1 B more")
    run = ran(
        result(RAN, costs, case="a/a", run=Run()),
        result(RAN, wrong, case="a/b", run=Run()),
        result(RAN, wrong, case="a/c", variant="mini/other", run=Run()),
    )
    found = findings(run.header, run.results)
    assert [(f.outcome, f.note.reason, f.known) for f in found] == [
        (Outcome.WRONG, "it forgets", True),
        (Outcome.COSTS, "a/a, release: 1 B more", False),
    ]
    assert found[0].cases == ("a/b", "a/c")
    assert found[0].variants == ("mini/right", "mini/other")
    assert (found[0].example, found[0].checks) == (("a/b", "mini/right"), ("gradient",))


def test_a_tally_counts_cases_and_what_was_not_known() -> None:
    wrong = verdict("gradient", Status.FAIL)
    lacks = unoffered(LACKS)
    run = ran(
        result(RAN, case="a/a", run=Run()),
        result(RAN, known(wrong, "it forgets"), case="a/b", run=Run()),
        result(RAN, wrong, case="a/c", run=Run()),
        result(lacks, case="a/d"),
        variants=("mini/right", "mini/idle"),
    )
    counted = tally(run.results)
    assert counted.outcomes == Counter({Outcome.WRONG: 2, Outcome.RIGHT: 1, Outcome.NOT_OFFERED: 1})
    assert (counted.ran, counted.unexpected) == (3, 1)
    assert counted.words == "right in 1 of 3 cases, silently wrong in 2"
    (framework,) = frameworks([run])
    assert framework.modes[0].bar == ((Outcome.WRONG, 2), (Outcome.RIGHT, 1))
    assert framework.sentence == "right: right in 1 of 3 cases, silently wrong in 2."
    assert [mode.tally.ran for mode in framework.modes] == [3, 0]


def test_a_worst_finding_is_one_of_the_mode_itself() -> None:
    """A reason may be silently wrong in one mode and raise in the other."""
    other = verdict("gradient", Status.FAIL, "gradient of x is <wrong>")
    run = ran(
        result(WRONG, run=Run(), variant="mini/right"),
        result(other, run=RAISED, variant="mini/other"),
    )
    (framework,) = frameworks([run])
    worst = {mode.name: mode.worst for mode in framework.modes}
    found = {
        name: finding and (finding.outcome, finding.example) for name, finding in worst.items()
    }
    assert found == {
        "right": (Outcome.WRONG, ("captures/frozen-input", "mini/right")),
        "other": (Outcome.RAISES, ("captures/frozen-input", "mini/other")),
    }


USES: dict[str, Use] = {"a/everyday": "everyday", "a/contract": "contract"}


def test_findings_are_sorted_by_what_users_meet() -> None:
    """A defect in everyday programs precedes a more severe one in unusual programs, then limits."""
    costs = verdict("executions", Status.FAIL, "twice")
    run = ran(
        result(known(WRONG, "limit", kind="limit"), case="a/everyday", run=Run()),
        result(known(WRONG, "rule"), case="a/contract", run=Run()),
        result(known(WRONG, "choice", kind="choice"), case="a/everyday", run=Run()),
        result(known(WRONG, "unusual"), case="a/unusual", run=Run()),
        result(known(costs, "everyday"), case="a/everyday", run=AGAIN),
        result(known(WRONG, "everyday"), case="a/contract", run=Run()),
    )
    found = findings(run.header, run.results, USES)
    sections = [(finding.note.reason, finding.section.name.lower()) for finding in found]
    assert [reason for reason, _ in sections] == ["everyday", "unusual", "limit", "choice", "rule"]
    assert [name for _, name in sections] == [s.name.lower() for s in Section]
    assert (found[0].outcome, found[0].example[0]) == (Outcome.COSTS, "a/everyday")


def test_limits_and_broken_rules_do_not_count_as_silently_wrong() -> None:
    run = ran(
        result(RAN, case="a/everyday", run=Run()),
        result(known(WRONG, "limit", kind="limit"), case="a/unusual", run=Run()),
        result(known(WRONG, "rule"), case="a/contract", run=Run()),
    )
    counted = tally(run.results, USES)
    assert counted.words == "right in 1 of 2 cases, documented limit in 1"
    assert tally(run.results, USES, "everyday").words == "right in 1 of 1 everyday program"


def test_the_mode_to_use_is_the_first_unless_less_goes_wrong_in_another() -> None:
    def of(mode: str, *wrong: str) -> list[Result]:
        named = {case: (WRONG if case in wrong else RAN) for case in ("a/a", "a/b")}
        return [result(v, case=c, variant=f"mini/{mode}", run=Run()) for c, v in named.items()]

    def best(*found: list[Result], advice: str = "") -> str:
        back = Background(advice={f"mini/{name}": "Use it." for name in advice.split()})
        (framework,) = frameworks([ran(*chain(*found))], back)
        return framework.best.name if framework.best else ""

    assert best(of("first"), of("other")) == "first"
    assert best(of("first", "a/a"), of("other", "a/b")) == "first"
    assert best(of("first", "a/a"), of("other")) == "other"
    assert best(of("first", "a/a"), of("other"), advice="first") == "first"
    assert best(of("first"), of("other"), advice="other first") == "other"
    few = [result(RAN, case="a/a", variant="mini/few", run=Run())]
    assert best(of("first", "a/a", "a/b"), few) == "few"


def test_the_report_has_the_notes_that_adapters_have_today() -> None:
    old = known(WRONG, "it forgot", cause="forgets")
    new = KnownNote("It forgets.", "", "forgets", "limit", "Remind it.")
    back = Background(notes={("mini", "forgets"): new})
    (framework,) = frameworks([ran(result(old, known(WRONG, "other"), run=Run()))], back)
    assert [finding.note for finding in framework.findings] == [KnownNote("other", ""), new]


def test_levels_are_words_of_the_page() -> None:
    assert {c.level for c in CHECKS.values()} <= {Level.MUST, Level.SHOULD, Level.REPORT}


# -- what it costs ---------------------------------------------------------------------------------


def test_costs_are_shares_of_plain_and_reruns_of_operations() -> None:
    asked = result(RAN, case=PROGRAM, run=RECOMPUTED, plain=PLAIN)
    assert cost([result(RAN, run=Run()), asked]) == Cost(0.125, 0.4, 0.5)
    assert cost([result(RAN, run=Run())]) == Cost()
    assert cost([result(RAN, case=PROGRAM, run=RAISED, plain=PLAIN)]) == Cost()


def test_what_was_not_observed_is_no_number() -> None:
    unseen = replace(RECOMPUTED, retained=None, executions=None)
    assert cost([result(RAN, case=PROGRAM, run=unseen, plain=PLAIN)]) == Cost(None, 0.4, None)
    assert cost([], seconds=1.5) == Cost(seconds=1.5)


def test_seconds_are_those_of_the_file_in_an_adapter_s_folder(tmp_path: Path) -> None:
    assert read_seconds("mini", tmp_path) == {}
    file = tmp_path / SECONDS
    file.write_text('{"version": "1.2", "ratios": {"right": 1.5}}', "utf-8")
    assert read_seconds("mini", tmp_path) == {"mini/right": ("1.2", 1.5)}
    for text in ("{", '{"version": "1.2"}', '{"version": "1.2", "ratios": {"right": "fast"}}'):
        file.write_text(text, "utf-8")
        with pytest.raises(AdapterError, match="no ratios of seconds"):
            read_seconds("mini", tmp_path)
