"""The end of a run in words: what is unexpected, the rare before the frequent."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from conformance.model.verdict import Status
from conformance.run.summary import LISTED_OF_A_KIND, AdapterRun, Tally, Unexpected, summary


def _tally(case: str, kind: str, message: str) -> Tally:
    found = Unexpected("value", Status.BROKEN, message, "", kind)
    return Tally(case, "mini/right", "", {Status.BROKEN: 1}, {"broken": 1}, (found,), ())


def test_a_rare_kind_stands_before_a_frequent_one() -> None:
    run = AdapterRun("mini", ("mini/right",), Path("reports/mini.jsonl"))
    for number in range(50):
        run.add(_tally(f"mini/{number}", "often", f"cannot write operation {number}"))
    run.add(_tally("mini/last", "rare", "gives 2 for 3"))
    lines = [str(part) for part in summary([run]) if isinstance(part, Text)]
    assert lines[0] == "unexpected verdicts: 51"
    assert "gives 2 for 3" in lines[1]
    assert sum("cannot write" in line for line in lines) == LISTED_OF_A_KIND
    assert "... and 45 more like it: reports/mini.jsonl" in lines
