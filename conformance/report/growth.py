"""What grows with depth, for a case that is a point of a law: the law, and what variants measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from conformance.language.laws import LAWS, QUANTITIES, Quantity
from conformance.model.case import Case, Law
from conformance.model.observation import Run
from conformance.model.result import Result

#: What is measured of retained memory beside what the laws count.
_STATES = "; measured with the random state that regions keep"


@dataclass(frozen=True)
class Point:
    """A case of the law: the law's numbers and the range of those measured, plain and recomputed."""

    case: str
    at: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Growth:
    """One quantity of a law (`words` are its formulas) over its cases, in `unit`."""

    title: str
    source: str
    quantity: Quantity
    unit: str
    at: str
    words: str
    points: tuple[Point, ...]


def growth(
    of: Case, cases: Iterable[Case], results: Mapping[str, Mapping[str, Result]]
) -> tuple[Growth, ...]:
    """The quantities of the case's law, over all cases of it with results (by case and variant)."""
    if of.law is None:
        return ()
    law = LAWS[of.law.name]
    points = sorted(
        (
            (c.law, c)
            for c in cases
            if c.law and _curve(c.law) == _curve(of.law) and c.id in results
        ),
        key=lambda point: point[0].at,
    )
    tables = []
    for quantity in (q for q in QUANTITIES if q in law.plain or q in law.recomputed):
        listed = []
        for at, case in points:
            cells = []
            for path, formulas in (("plain", law.plain), ("recomputed", law.recomputed)):
                formula = formulas.get(quantity)
                cells.append("" if formula is None else f"{formula(at.at, at.constants):,.6g}")
                cells.append(_range(case, results[case.id].values(), quantity, path, law.unit))
            listed.append(Point(case.id, at.at, tuple(cells)))
        if not any(point.cells[1] or point.cells[3] for point in listed):
            continue
        unit = "runs of a statement" if quantity == "executions" else law.unit
        words = law.words[quantity] + (_STATES if quantity == "retained" else "")
        tables.append(Growth(law.title, law.source, quantity, unit, law.at, words, tuple(listed)))
    return tuple(tables)


def _curve(law: Law) -> tuple[str, tuple[tuple[str, int], ...]]:
    return law.name, tuple(sorted(law.constants.items()))


def _range(case: Case, results: Iterable[Result], quantity: Quantity, path: str, unit: str) -> str:
    """The least and the most that variants measured; empty where nothing was observed."""
    measured = [v for r in results if (v := _value(case, r, quantity, path, unit)) is not None]
    ends = (min(measured), max(measured)) if measured else ()
    return "–".join(dict.fromkeys(f"{number:,.4g}" for number in ends))


def _value(case: Case, result: Result, quantity: Quantity, path: str, unit: str) -> float | None:
    """The quantity as it was observed; `None` where it was not."""
    observation, expected = result.observation, result.expected
    if observation is None or expected is None or expected.memory is None:
        return None
    run: Run = observation.plain if path == "plain" else observation.recomputed
    if quantity == "executions":
        counted = case.counted()
        counts = [e.count for e in run.executions or () if (e.region, e.statement) in counted]
        return sum(counts) or None
    number = run.retained if quantity == "retained" else run.peak
    if number is None:
        return None
    if quantity == "retained" and run.random_state is not None:
        number += run.random_state.nbytes
    return number if unit == "bytes" else number / expected.memory.unit
