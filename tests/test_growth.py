"""Charts of growth: which curves are drawn, who shares one, and where the points lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from conformance.language.load import load_text
from conformance.model.case import Case
from conformance.model.observation import Execution, Expected, ExpectedMemory, Observation, Run
from conformance.report.growth import Chart, Curve, Frame, charts
from conformance.results import Result

UNIT = 1000
TEXT = """\
family: grown
cases:
  chain:
    title: A chain
    source: made up for the tests
    why: There must be one.
    axes: {n: [4, 16]}
    inputs:
      x: {shape: [2, 3], normal: 1.0}
    program:
      - recompute: block
        takes: x
        gives: y
        body:
          - h = sin(x)
          - y = exp(h)
    outputs: y
    gradients: {of: sum(y)}
    law: {name: sqrt-segments, at: $n, counts: sin}
"""
CASES = load_text(TEXT, "grown.yaml")
EXPECTED = Expected(
    None, None, None, None, None, None, {}, ExpectedMemory((0, 0), (0, 0), 0, UNIT), None
)


def result(
    case: Case, variant: str, plain: Any, recomputed: Any, runs: int | None = None
) -> Result:
    """Bytes that were retained in both runs, and how often `h` ran again."""
    executions = None if runs is None else (Execution("block", "h", "rerun", runs),)
    seen = Observation(Run(retained=plain), Run(retained=recomputed, executions=executions), {}, {})
    return Result(case.id, variant, (), seen, EXPECTED, "")


def made(*rows: dict[str, tuple[Any, Any]]) -> list[Chart]:
    """Charts of the two cases; a row has (plain, recomputed) by variant."""
    found = {
        case.id: {v: result(case, v, *pair) for v, pair in row.items()}
        for case, row in zip(CASES, rows, strict=True)
    }
    return charts(CASES, found)


def test_variants_that_measured_the_same_share_a_curve() -> None:
    (chart,) = made(
        {"a/one": (4000, 2000), "b/two": (4010, 2000), "c/three": (8000, 4000)},
        {"a/one": (16000, 4000), "b/two": (16010, 4000), "c/three": (16000, 16000)},
    )
    assert (chart.quantity, chart.unit, chart.at) == ("retained", "activations", "n")
    found = [(c.path, c.variants, c.points) for c in chart.curves]
    assert found == [
        ("plain", ["a/one", "b/two"], [(4, 4.0), (16, 16.0)]),
        ("plain", ["c/three"], [(4, 8.0), (16, 16.0)]),
        ("recomputed", ["a/one", "b/two"], [(4, 2.0), (16, 4.0)]),
        ("recomputed", ["c/three"], [(4, 4.0), (16, 16.0)]),
    ]


def test_the_law_stands_beside() -> None:
    (chart,) = made({"a/one": (4000, 2000)}, {"a/one": (16000, 4000)})
    laws = {curve.path: curve.points for curve in chart.laws}
    assert laws == {"plain": [(4, 4), (16, 16)], "recomputed": [(4, 2), (16, 4)]}
    assert "√n" in chart.words


def test_what_was_not_observed_has_no_point() -> None:
    (chart,) = made({"a/one": (4000, None)}, {"a/one": (None, 4000)})
    assert [c.points for c in chart.curves] == [[(4, 4.0)], [(16, 4.0)]]
    assert made({"a/one": (None, None)}, {"a/one": (None, None)}) == []


def test_executions_of_the_operation_that_the_law_is_about() -> None:
    case = CASES[0]
    both = {case.id: {"a/one": result(case, "a/one", None, None, 6)}}
    (chart,) = charts(CASES, both)
    assert chart.quantity == "executions"
    assert [(c.path, c.points) for c in chart.curves] == [("recomputed", [(4, 6.0)])]
    other = Observation(Run(), Run(executions=(Execution("block", "y", "rerun", 6),)), {}, {})
    assert (
        charts(CASES, {case.id: {"a/one": replace(both[case.id]["a/one"], observation=other)}})
        == []
    )


def chart(*points: tuple[float, float]) -> Chart:
    curve = Curve(path="plain", variants=["a/one"], points=list(points))
    (base,) = made({"a/one": (4000, 2000)}, {"a/one": (16000, 4000)})
    return msgspec.structs.replace(base, curves=[curve], laws=[])


def test_points_lie_on_logarithmic_axes() -> None:
    frame = Frame(chart((16, 10), (64, 100), (256, 1000)))
    xs, ys = [frame.x(n) for n in (16, 64, 256)], [frame.y(n) for n in (10, 100, 1000)]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)
    assert ys[0] - ys[1] == pytest.approx(ys[1] - ys[2], abs=0.2)
    assert ys[0] == frame.height - frame.bottom
    assert ys[2] == frame.top
    assert [label for _, label in frame.decades()] == ["10", "100", "1 k"]


def test_nothing_lies_on_the_lower_edge_and_one_point_in_the_middle() -> None:
    frame = Frame(chart((16, 0)))
    assert frame.y(0) == frame.height - frame.bottom
    assert 0 < frame.x(16) < frame.width
