"""The end of a run in words: outcomes by variant, then what is unexpected, rare kinds first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from conformance.model.result import Result
from conformance.model.verdict import Level, Status, Verdict
from conformance.run.summary import LISTED, LISTED_OF_A_KIND, AdapterRun, summary
from tests import report_samples as samples

FILE = Path("reports/mini.db")


def _result(case: str, check: str, message: str, status: Status = Status.FAIL) -> Result:
    verdict = Verdict(check, status, Level.MUST, message)
    return samples.result("mini/right", case=f"mini/{case}", verdicts=(verdict,))


def _run(found: Sequence[Result], **more: str) -> AdapterRun:
    return AdapterRun("mini", FILE, results=samples.results("mini", found), **more)


def _lines(run: AdapterRun) -> list[str]:
    return [str(part) for part in summary([run]) if isinstance(part, Text)]


def test_outcomes_are_counted_by_variant() -> None:
    found = [
        samples.result("mini/right"),
        samples.result("mini/right", case="sample/noise"),
        samples.result("mini/wrong", verdicts=(samples.PASS, samples.FAIL)),
        samples.result("mini/wrong", verdicts=(samples.FAIL,), case="sample/noise"),
    ]
    (table,) = (part for part in summary([_run(found)]) if isinstance(part, Table))
    columns = {str(c.header): [str(cell) for cell in c.cells] for c in table.columns}
    assert columns == {
        "variant": ["mini/right", "mini/wrong"],
        "right": ["2", ""],
        "silently wrong": ["", "2"],
        "unexpected": ["", "2"],
    }


def test_a_rare_kind_stands_before_a_frequent_one() -> None:
    found = [_result(f"{n}", "value", f"cannot write operation {n}") for n in range(50)]
    lines = _lines(_run([*found, _result("last", "gradient", "gives 2 for 3")]))
    assert lines[0] == "unexpected verdicts: 51"
    assert "gives 2 for 3" in lines[1]
    assert sum("cannot write" in line for line in lines) == LISTED_OF_A_KIND
    assert f"... and 45 more like it: {FILE}" in lines


def test_what_is_broken_for_one_reason_is_one_entry_after_all_failures() -> None:
    cannot = "the adapter cannot write the program: not written for mini/right: 'x{}'"
    found = [_result(f"{n}", "error", cannot.format(n), Status.BROKEN) for n in range(250)]
    axis = "the plain program raised TypeError: no axis"
    found.append(_result("axis", "error", axis, Status.BROKEN))
    found += [_result(f"wrong-{n}", "value", f"gives {n} for 3") for n in range(2)]
    lines = _lines(_run(found))
    assert [line.partition("[")[0] for line in lines[1:5]] == [
        *("mini/wrong-0", "mini/wrong-1", "mini/axis", "mini/0")
    ]
    assert lines[5] == f"... and 249 more like it: {FILE}"
    assert lines[6:] == [f"results: {FILE}"]


def test_many_kinds_have_a_place_each_and_what_has_none_is_counted() -> None:
    found = [
        _result(f"{kind}-{n}", f"check {kind:02}", f"gives {n} for 3")
        for kind in range(LISTED - 1)
        for n in range(3)
    ]
    found.append(_result("last", "error", "the plain program raised", Status.BROKEN))
    lines = _lines(_run(found))
    assert sum("gives 0 for 3" in line for line in lines) == LISTED - 1
    assert any(line.startswith("mini/last") for line in lines)
    found += [_result(f"one-more-{n}", "value", f"gives {n} for 4") for n in range(2)]
    assert f"... and 1 more, of 1 other kind: {FILE}" in _lines(_run(found))


def test_a_run_that_is_not_whole_says_so() -> None:
    lines = _lines(_run([samples.result("mini/right")], interrupted="SIGINT after 1 of 2 pairs"))
    assert (
        lines[0] == "mini is incomplete: SIGINT after 1 of 2 pairs; the same command continues it"
    )
    assert _lines(AdapterRun("mini", FILE, broken="no framework")) == ["no framework"]
