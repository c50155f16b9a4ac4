"""A case drawn as a graph: what is kept and runs again, and boxes that lie apart."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from conformance.language.load import load_text
from conformance.model.case import walk
from conformance.oracle.fates import Fate, fates
from conformance.report.graph import MOST, Box, draw
from tests.suite_cases import CASES

ALL = ("whole", "early-stop", "minimal")
DRAWN = [case for case in CASES if draw(case) is not None]


def of(id_: str):
    return next(case for case in CASES if case.id == id_)


# -- what becomes of a statement -------------------------------------------------------------------


def test_the_last_operation_runs_again_as_a_whole_alone() -> None:
    """Backward of `y = g @ w2 + b2` reads g, and not y; nothing outside the region reads y either."""
    found = fates(of("basics/mlp-block"), ALL)
    assert found["mlp", "h"] == Fate(ALL, "")
    assert found["mlp", "y"] == Fate(("whole",), "")
    assert found["", "z"] == Fate((), "all")  # the gradient of z * z reads z


def test_what_a_policy_keeps_does_not_run_again() -> None:
    assert fates(of("memory/softmax"), ALL)["block", "q"] == Fate((), "all")


def test_nothing_is_said_of_a_program_that_raises() -> None:
    assert fates(of("errors/raised-in-region"), ALL) == {}


# -- the drawing -----------------------------------------------------------------------------------


def within(inner: Box, outer: Box) -> bool:
    return (
        outer.x <= inner.x
        and outer.y <= inner.y
        and inner.x + inner.width <= outer.x + outer.width + 0.01
        and inner.y + inner.height <= outer.y + outer.height + 0.01
    )


def apart(one: Box, other: Box) -> bool:
    return (
        one.x + one.width <= other.x
        or other.x + other.width <= one.x
        or one.y + one.height <= other.y
        or other.y + other.height <= one.y
    )


@pytest.mark.parametrize("case", DRAWN, ids=[case.id for case in DRAWN])
def test_boxes_lie_apart_or_inside_each_other(case) -> None:
    drawing = draw(case)
    assert drawing is not None
    for box in drawing.boxes:
        assert box.x >= 0
        assert box.x + box.width <= drawing.width + 0.51
        assert box.y >= 0
        assert box.y + box.height <= drawing.height + 0.51
        assert all(within(inner, box) for inner in box.inside)
    for one, other in combinations(drawing.boxes, 2):
        nested = other in list(one.all()) or one in list(other.all())
        assert nested or apart(one, other), (one.text, other.text)


@pytest.mark.parametrize("case", DRAWN, ids=[case.id for case in DRAWN])
def test_every_operation_is_drawn_in_its_region(case) -> None:
    drawing = draw(case)
    assert drawing is not None
    shown = [box.text for box in drawing.boxes if box.style in ("op", "again")]
    assert len(shown) == len(case.statements())
    regions = [box for box in drawing.boxes if box.style == "region"]
    assert len(regions) == len(case.regions())


def test_an_edge_goes_around_what_lies_between() -> None:
    text = """\
family: f
cases:
  c:
    title: A sum
    source: made up
    why: There must be one.
    inputs: {x: {shape: [2], normal: 1.0}}
    program:
      - recompute: block(x)
        body: a = sin(x); b = cos(a); y = exp(b)
      - z = add(x, y)
    outputs: z
    gradients: {of: sum(z)}
"""
    (case,) = load_text(text, "f.yaml")
    drawing = draw(case)
    assert drawing is not None
    around = [path for path in drawing.edges if "H" in path]
    assert len(around) == 1  # from x to z
    lane = float(re.findall(r"H([\d.]+)", around[0])[0])
    assert all(box.x + box.width < lane for box in drawing.boxes if box.style == "again")


def test_what_is_too_large_is_not_drawn() -> None:
    large = of("growth/each-layer[n=256]")
    assert sum(1 for _ in walk(large.program)) > MOST
    assert draw(large) is None
