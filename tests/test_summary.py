"""The end of a run in words: what is unexpected, the rare before the frequent."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from conformance.drivers.adapter import Discipline
from conformance.judge.triage import Triage, Triaged
from conformance.model.verdict import Level, Status, Verdict
from conformance.run.summary import LISTED, LISTED_OF_A_KIND, AdapterRun, Tally, Unexpected, summary


def _tally(case: str, kind: str, message: str, status: Status = Status.FAIL) -> Tally:
    found = Unexpected("value", status, message, "", kind)
    return Tally(case, "mini/right", "", {status: 1}, {status.value: 1}, (found,), ())


def _lines(run: AdapterRun) -> list[str]:
    return [str(part) for part in summary([run]) if isinstance(part, Text)]


def test_a_rare_kind_stands_before_a_frequent_one() -> None:
    run = AdapterRun("mini", ("mini/right",), Path("reports/mini.jsonl"))
    for number in range(50):
        run.add(_tally(f"mini/{number}", "often", f"cannot write operation {number}"))
    run.add(_tally("mini/last", "rare", "gives 2 for 3"))
    lines = _lines(run)
    assert lines[0] == "unexpected verdicts: 51"
    assert "gives 2 for 3" in lines[1]
    assert sum("cannot write" in line for line in lines) == LISTED_OF_A_KIND
    assert "... and 45 more like it: reports/mini.jsonl" in lines


def test_what_is_broken_for_one_reason_is_one_entry_after_all_failures() -> None:
    run = AdapterRun("mini", ("mini/right",), Path("reports/mini.jsonl"))
    for number in range(250):
        verdict = Verdict(
            "error",
            Status.BROKEN,
            Level.MUST,
            f"the adapter cannot write the program: not written for mini/right: 'x{number}'",
        )
        found = Unexpected.of(Triaged(verdict, Triage.UNEXPECTED))
        run.add(Tally(f"mini/{number}", "mini/right", "", {}, {}, (found,), ()))
    other = Verdict(
        "error", Status.BROKEN, Level.MUST, "the plain program raised TypeError: no axis"
    )
    found = Unexpected.of(Triaged(other, Triage.UNEXPECTED))
    run.add(Tally("mini/axis", "mini/right", "", {}, {}, (found,), ()))
    for number in range(2):
        run.add(_tally(f"mini/wrong-{number}", "wrong", f"gives {number} for 3"))
    lines = _lines(run)
    assert [line.partition("[")[0] for line in lines[1:5]] == [
        *("mini/wrong-0", "mini/wrong-1", "mini/axis", "mini/0")
    ]
    assert lines[5] == "... and 249 more like it: reports/mini.jsonl"
    assert lines[6:] == ["results: reports/mini.jsonl"]


def test_many_kinds_have_a_place_each_and_what_has_none_is_counted() -> None:
    run = AdapterRun("mini", ("mini/right",), Path("reports/mini.jsonl"))
    for kind in range(LISTED - 1):
        for number in range(3):
            run.add(_tally(f"mini/{kind}-{number}", f"kind {kind:02}", f"gives {number} for 3"))
    run.add(_tally("mini/last", "last", "the plain program raised", Status.BROKEN))
    lines = _lines(run)
    assert sum("gives 0 for 3" in line for line in lines) == LISTED - 1
    assert any(line.startswith("mini/last") for line in lines)
    for number in range(2):
        run.add(_tally(f"mini/one-more-{number}", "one more", f"gives {number} for 4"))
    assert "... and 1 more, of 1 other kind: reports/mini.jsonl" in _lines(run)


def test_a_run_of_the_wrong_discipline_says_which_one_fits() -> None:
    run = AdapterRun("mine", ("mine/eager",), Path("reports/mine.jsonl"))
    fits: list[tuple[Discipline, ...]] = [("early-stop",), ("early-stop", "minimal"), ()]
    for number, each in enumerate(fits):
        found = Unexpected("executions", Status.FAIL, "ran again 0 times", "", "kind")
        run.add(Tally(f"mini/{number}", "mine/eager", "", {}, {}, (found,), (), each))
    assert "hint: 2 of 3 wrong results of executions are those of early-stop" in _lines(run)[-2]
    run.misfits = 5  # others are wrong for other reasons
    assert not any("hint" in line for line in _lines(run))
