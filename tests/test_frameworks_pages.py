"""Which mode, what it promises, what it costs: the numbers, the choice, the chart and the pages."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.drivers.adapter import all_adapters
from conformance.judge.outcomes import Outcome
from conformance.model.observation import Execution, Run
from conformance.model.verdict import Status
from conformance.paths import find_paths
from conformance.report.costs import PROGRAM, Cost, cost, recommended
from conformance.report.findings import Tally
from conformance.report.frontier import Drawing
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


def tally(**outcomes: int) -> Tally:
    return Tally(Counter({Outcome[name]: number for name, number in outcomes.items()}), 0)


# -- what it costs ---------------------------------------------------------------------------------


def test_costs_are_shares_of_plain_and_reruns_of_operations() -> None:
    asked = result(RAN, case=PROGRAM, run=RECOMPUTED, plain=PLAIN)
    assert cost([result(RAN, run=Run()), asked]) == Cost(0.125, 0.4, 0.5)
    assert cost([result(RAN, run=Run())]) == Cost()
    assert cost([result(RAN, case=PROGRAM, run=RAISED, plain=PLAIN)]) == Cost()


def test_what_was_not_observed_is_no_number() -> None:
    unseen = replace(RECOMPUTED, retained=None, executions=None)
    found = cost([result(RAN, case=PROGRAM, run=unseen, plain=PLAIN)])
    assert found == Cost(None, 0.4, None)
    assert found.memory == 0.4


# -- which mode ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("modes", "best"),
    [
        ({"a": tally(RIGHT=9, WRONG=1), "b": tally(RIGHT=6, RAISES=4)}, "b"),
        ({"a": tally(RIGHT=8, RAISES=2), "b": tally(RIGHT=9, RAISES=1)}, "b"),
        ({"a": tally(RIGHT=6, INERT=4), "b": tally(RIGHT=9, COSTS=1)}, "b"),
        # Right where nobody has looked, and right because nothing is done.
        ({"a": tally(RIGHT=99, WRONG=1), "b": tally(RIGHT=4, NOT_RUN=96)}, "a"),
        ({"a": tally(RIGHT=99, WRONG=1), "b": tally(RIGHT=20, INERT=80)}, "a"),
        ({"a": tally(INERT=9, RIGHT=1)}, ""),
        ({"a": tally(NOT_RUN=9)}, ""),
        ({}, ""),
    ],
)
def test_the_mode_that_comes_out_best(modes: dict[str, Tally], best: str) -> None:
    assert recommended({name: (found, Cost()) for name, found in modes.items()}) == best


def test_of_equals_the_one_that_frees_more() -> None:
    found = {"a": Cost(0.5), "b": Cost(None, 0.4), "c": Cost()}
    assert recommended({name: (tally(RIGHT=9), spent) for name, spent in found.items()}) == "b"


# -- the chart -------------------------------------------------------------------------------------


def test_modes_that_cost_alike_share_a_letter() -> None:
    drawing = Drawing(
        [
            ("a", Cost(0.12, None, 0.9)),
            ("b", Cost(0.15, None, 0.88)),
            ("c", Cost(None, 0.13, 0.9)),
            ("d", Cost(2.5, None, 0.0)),
            ("e", Cost(0.1)),
        ]
    )
    assert [(p.letter, p.words) for p in drawing.points] == [
        ("A", "a (12%, 0.90×), b (15%, 0.88×)"),
        ("B", "d (250%, 0.00×), beyond the edge"),
        ("C", "c (13%, 0.90×)"),
    ]
    assert drawing.not_observed == ("e",)
    assert drawing.y(2.5) == drawing.top
    assert drawing.y(0.0) == drawing.height - drawing.bottom


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


# -- the pages -------------------------------------------------------------------------------------


def test_a_page_says_what_a_mode_is_and_costs() -> None:
    run = ran(
        result(RAN, case=PROGRAM, run=RECOMPUTED, plain=PLAIN),
        result(WRONG, run=Run()),
    )
    pages = render([run], {"mini/right": "mini.recompute(f, |)"})
    assert list(pages) == ["mini"]
    page = pages["mini"]
    assert "right comes out best: right in 1 of 2 cases, silently wrong in 1." in page
    assert "the retained memory is 12% of that without recompute" in page
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
