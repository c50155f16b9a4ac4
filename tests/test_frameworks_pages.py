"""What each variant costs, and the page of each framework."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conformance.drivers.adapter import all_adapters
from conformance.judge.outcomes import Outcome
from conformance.model.observation import Execution, Run
from conformance.model.verdict import Status
from conformance.paths import find_paths
from conformance.report.costs import PROGRAM, Cost, cost
from conformance.report.modes import render
from conformance.report.overview import frameworks
from tests.test_behaviours import RAISED, RAN, ran, result, verdict

ROOT = Path(__file__).parent.parent
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


# -- the pages -------------------------------------------------------------------------------------


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


def test_a_page_says_what_a_mode_is_and_costs() -> None:
    run = ran(
        result(RAN, case=PROGRAM, run=RECOMPUTED, plain=PLAIN),
        result(WRONG, run=Run()),
    )
    pages = render([run], {"mini/right": "mini.recompute(f, |)"})
    assert list(pages) == ["mini"]
    page = pages["mini"]
    assert "right in 1 of 2 cases, silently wrong in 1" in page
    assert "| `right` | mini.recompute(f, \\|) |  | 12% | 40% | 0.50× |" in page
    assert "gradient of x is \\<wrong\\>" in page
    assert "[`captures/frozen-input`](../../cases/captures.yaml)" in page


@pytest.mark.parametrize("adapter", all_adapters(find_paths().adapters), ids=lambda a: a.name)
def test_the_page_of_each_framework_has_its_modes(adapter) -> None:
    """Made anew with `conformance frameworks --output docs/frameworks` from a whole run."""
    page = ROOT / "docs" / "frameworks" / f"{adapter.name}.md"
    if not (ROOT / "docs").is_dir():
        pytest.skip("no checkout")
    rows = [row for row in page.read_text("utf-8").splitlines() if row.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [variant.name for variant in adapter.variants]
    for row, variant in zip(rows, adapter.variants, strict=True):
        said = row.split(" | ")[1].replace("\\", "")
        assert said == variant.model.title
