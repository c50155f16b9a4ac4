"""The reference's accounting follows the laws of growth: known numbers, and the cases' own."""

from __future__ import annotations

import math

import pytest

from conformance.language.laws import LAWS, QUANTITIES
from conformance.model.case import Case
from conformance.model.observation import Expected
from conformance.oracle.expected import expect
from tests import suite_cases

CASES = [case for case in suite_cases.CASES if case.law is not None]
CHAINS = [c for c in CASES if c.law is not None and c.law.name != "transformer-layer"]
#: The largest chain of products is left to runs of the adapters: it takes ten times as long as all.
COUNTED = [
    c for c in CHAINS if c.law is not None and (c.law.at <= 64 or c.law.name != "each-layer")
]
#: Of the peak: the cotangents of an operation's result and of its argument.
COTANGENTS = 2


def activations(case: Case, discipline: str) -> tuple[Expected, dict[str, float], dict[str, float]]:
    """The expectation, and what it says of plain and of recomputed, in activations and runs."""
    found: Expected = expect(case, discipline)
    assert found.memory is not None
    memory, unit = found.memory, found.memory.unit
    ran = {"forward": 0, "rerun": 0}
    for (region, label, phase), allowed in found.executions.items():
        if (region, label) in case.counted():
            ran[phase] += max(allowed.counts)
    plain = {
        "retained": memory.plain[1] / unit,
        "peak": memory.peaks[0] / unit - COTANGENTS,
        "executions": ran["forward"],
    }
    recomputed = {
        "retained": memory.recomputed[1] / unit,
        "peak": memory.peaks[1] / unit - COTANGENTS,
        "executions": ran["forward"] + ran["rerun"],
    }
    return found, plain, recomputed


@pytest.mark.parametrize("case", COUNTED, ids=lambda case: case.id)
def test_the_reference_counts_what_the_law_says(case: Case) -> None:
    """The outputs of these chains are one number, and add nothing that shows."""
    assert case.law is not None
    law = LAWS[case.law.name]
    # √n segments need the last operation of no segment, which early stop leaves out; halving is
    # counted by its authors with whole halves run again.
    discipline = "early-stop" if case.law.name == "sqrt-segments" else "whole"
    _, plain, recomputed = activations(case, discipline)
    for quantity in QUANTITIES:
        for seen, formulas in ((plain, law.plain), (recomputed, law.recomputed)):
            if quantity in formulas:
                wanted = formulas[quantity](case.law.at, case.law.constants)
                assert seen[quantity] == pytest.approx(wanted, abs=0.01), quantity


@pytest.mark.parametrize(
    ("name", "n", "retained", "peak", "executions"),
    [
        ("sqrt-segments", 16, 4, 7, 28),
        ("sqrt-segments", 256, 16, 31, 496),
        ("sqrt-segments", 1024, 32, 63, 2016),
        ("recursive-halving", 8, 4, 4, 20),
        ("recursive-halving", 16, 5, 5, 48),
        ("recursive-halving", 1024, 11, 11, 6144),
    ],
)
def test_numbers_of_the_laws(
    name: str, n: int, retained: float, peak: float, executions: float
) -> None:
    law = LAWS[name].recomputed
    found = [law[quantity](n, {}) for quantity in QUANTITIES]
    assert found == [retained, peak, executions]


def test_the_transformer_law_is_the_papers_at_16_bit() -> None:
    s, b, h, a = 2048, 2, 1024, 16
    constants = {"b": b, "h": h, "a": a, "width": 2}
    law = LAWS["transformer-layer"]
    assert law.plain["retained"](s, constants) == s * b * h * (34 + 5 * a * s / h)
    assert law.recomputed["retained"](s, constants) == 2 * s * b * h


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.law is not None and c.law.name == "transformer-layer"],
    ids=lambda case: case.id,
)
def test_a_transformer_layer_keeps_what_the_paper_counts(case: Case) -> None:
    """The law lies within what implementations may save; recomputed, one input remains exactly."""
    assert case.law is not None
    law = LAWS["transformer-layer"]
    memory = expect(case, "whole").memory
    plain = law.plain["retained"](case.law.at, case.law.constants)
    assert memory.plain[0] <= plain <= memory.plain[1]
    assert memory.recomputed[1] == law.recomputed["retained"](case.law.at, case.law.constants)


@pytest.mark.parametrize("name", LAWS)
def test_every_law_has_cases_and_words(name: str) -> None:
    law = LAWS[name]
    at = {c.law.at for c in CASES if c.law is not None and c.law.name == name}
    assert len(at) >= 3
    assert set(law.words) == {*law.plain, *law.recomputed}
    assert "20" in law.source
    assert not math.isnan(law.plain["retained"](16, dict.fromkeys(law.constants, 2)))
