"""What grows with depth, for a case that is a point of a law: the law, and what variants measured."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from conformance.language import laws
from conformance.model.case import Case
from conformance.model.observation import Run
from conformance.model.result import Result

#: What is measured of retained memory beside what the laws count.
_STATES = "; measured with the random state that regions keep"


class Point(NamedTuple):
    """A case of the law: the law's numbers and the range of those measured, plain and recomputed."""

    case: str
    at: int
    cells: tuple[str, ...]


class Growth(NamedTuple):
    """One quantity of a law (`words` are its formulas) over its cases, in `unit`."""

    law: laws.Growth
    quantity: laws.Quantity
    unit: str
    words: str
    points: tuple[Point, ...]


def growth(
    of: Case, cases: Iterable[Case], results: Mapping[str, Mapping[str, Result]]
) -> tuple[Growth, ...]:
    """The quantities of the case's law, over all cases of it with results (by case and variant)."""
    if of.law is None:
        return ()
    law, curve = laws.LAWS[of.law.name], (of.law.name, of.law.constants)
    on_curve = [(c.law, c) for c in cases if c.law and (c.law.name, c.law.constants) == curve]
    on_curve.sort(key=lambda point: point[0].at)
    tables = []
    for quantity in (q for q in laws.QUANTITIES if q in law.plain or q in law.recomputed):
        unit = "runs of a statement" if quantity == "executions" else law.unit
        points = []
        for at, case in ((at, case) for at, case in on_curve if case.id in results):
            cells: list[str] = []
            for path, formulas in (("plain", law.plain), ("recomputed", law.recomputed)):
                formula = formulas.get(quantity)
                cells.append(f"{formula(at.at, at.constants):,.6g}" if formula else "")
                found = (_value(case, r, quantity, path, unit) for r in results[case.id].values())
                measured = [number for number in found if number is not None]
                # The least and the most that variants measured.
                ends = (min(measured), max(measured)) if measured else ()
                cells.append("–".join(dict.fromkeys(f"{number:,.4g}" for number in ends)))
            points.append(Point(case.id, at.at, tuple(cells)))
        if any(point.cells[1] or point.cells[3] for point in points):
            words = law.words[quantity] + (_STATES if quantity == "retained" else "")
            tables.append(Growth(law, quantity, unit, words, tuple(points)))
    return tuple(tables)


def _value(
    case: Case, result: Result, quantity: laws.Quantity, path: str, unit: str
) -> float | None:
    """The quantity as it was observed; `None` where it was not."""
    if result.observation is None or result.expected is None or result.expected.memory is None:
        return None
    run: Run = getattr(result.observation, path)
    if quantity == "executions":
        counted = case.counted()
        counts = [e.count for e in run.executions or () if (e.region, e.statement) in counted]
        return sum(counts) or None
    number = run.retained if quantity == "retained" else run.peak
    if number is None:
        return None
    if quantity == "retained" and run.random_state is not None:
        number += run.random_state.nbytes
    return number if unit == "bytes" else number / result.expected.memory.unit
