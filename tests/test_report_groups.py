"""What variants do alike, random masks, and the order of frameworks in a report."""

from __future__ import annotations

import numpy as np

from conformance.cli.options import in_report_order
from conformance.judge.outcomes import Outcome
from conformance.model.observation import RandomSample, Run
from conformance.model.verdict import Level, Status, Verdict
from conformance.report.groups import memory_groups, outcome_groups, row_groups
from conformance.report.masks import masks
from conformance.report.tables import Cell, MemoryRow, Row, Table
from tests.report_samples import FAIL, PASS, known, result, results

WRONG = Verdict("gradient", Status.FAIL, Level.MUST, "gradient of w is None")


def test_variants_that_do_the_same_for_one_reason_stand_together() -> None:
    forgets = known(WRONG, "it forgets w", "https://example.org/1")
    found = outcome_groups(
        {
            "a/one": result("a/one", verdicts=(PASS,)),
            "a/two": result("a/two", verdicts=(forgets,)),
            "a/three": result("a/three", verdicts=(forgets,)),
            "b/one": result("b/one", verdicts=(WRONG,)),
        }
    )
    assert [(part.outcome, part.variants) for part in found] == [
        (Outcome.WRONG, ("a/two", "a/three")),
        (Outcome.WRONG, ("b/one",)),
        (Outcome.RIGHT, ("a/one",)),
    ]
    assert [part.reason for part in found] == ["it forgets w", "", ""]
    assert found[0].url == "https://example.org/1"


def test_values_have_a_row_for_all_that_are_right() -> None:
    cells = (Cell("1e-07"), Cell("3e-07"), Cell("0.5", wrong=True), Cell("0.5", wrong=True))
    names = ("a/one", "a/two", "b/one", "b/two")
    wrong, right = row_groups(Table(names, (Row("loss", "1", cells),)))
    assert wrong.variants == ("b/one", "b/two")
    assert not wrong.all_right
    assert right.variants == ("a/one", "a/two")
    assert right.all_right
    assert right.cells == (Cell("3e-07"),)  # the one that is furthest off


def test_bytes_that_are_the_same_share_a_row() -> None:
    rows = [
        MemoryRow("a/one", 100, 20, 10, 8.0, "8", False, (20, 30)),
        MemoryRow("b/one", 100, 40, 10, 6.0, "8", True, (20, 30)),
        MemoryRow("a/two", 100, 20, 10, 8.0, "8", False, (20, 30)),
    ]
    assert [names for names, _ in memory_groups(rows)] == [("a/one", "a/two"), ("b/one",)]


def _drew(forward: list[float], rerun: list[float]) -> Run:
    samples = (
        RandomSample("block", "d", "forward", np.array([forward], np.float32)),
        RandomSample("block", "d", "rerun", np.array([rerun], np.float32)),
    )
    return Run(samples=samples)


def test_masks_show_which_elements_are_not_the_same() -> None:
    run = _drew([0, 2, 1, 0], [0, 1, 0, 2])
    (mask,) = masks({name: result(name, run) for name in ("a/one", "a/two")})
    assert mask.variants == ("a/one", "a/two")
    assert mask.words == "d in region block: 3 of 4 elements are not the same"
    assert mask.description.endswith("2 zeros in forward, 2 when it runs again")
    forward, again = mask.squares[:4], mask.squares[4:]
    assert [s.other for s in forward] == [s.other for s in again] == [False, True, True, True]
    assert [s.grey for s in forward] == [0, 5, 3, 0]  # zero is dark, the largest is light
    assert [s.grey for s in again] == [0, 3, 0, 5]
    assert min(s.x for s in again) > max(s.x + s.side for s in forward)


def test_a_large_draw_is_cut_and_one_of_another_shape_is_left_out() -> None:
    many = Run(
        samples=tuple(
            RandomSample("block", "d", phase, np.full((100, 100), value, np.float32))
            for phase, value in (("forward", 1.0), ("rerun", np.nan))
        )
    )
    (mask,) = masks({"a/one": result("a/one", many)})
    assert len(mask.squares) == 2 * 16 * 32
    assert "10000 of 10000" in mask.words
    other = Run(
        samples=(
            RandomSample("block", "d", "forward", np.zeros((2, 2))),
            RandomSample("block", "d", "rerun", np.zeros(3)),
        )
    )
    assert masks({"a/one": result("a/one", other), "a/two": result("a/two")}) == ()


def test_reports_list_adapters_by_their_place(tmp_path) -> None:
    from conformance.paths import find_paths

    names = ("autograd", "jax", "mine", "reference", "torch")
    runs = [results(name, [result(f"{name}/x", verdicts=(FAIL,))]) for name in names]
    found = [run.header.adapter for run in in_report_order(runs, find_paths().adapters)]
    assert found == ["torch", "jax", "autograd", "mine", "reference"]
