"""What grows with depth: the measured curves of every variant, and the law beside them.

Variants that measured the same share a curve. Points are (what the law is a function of, value), the
value in activations of the case, in bytes, or in executions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from conformance.language.laws import LAWS, QUANTITIES, Quantity
from conformance.model.case import Case, Law
from conformance.model.observation import Run
from conformance.results import Result

Path = Literal["plain", "recomputed"]
PATHS: tuple[Path, ...] = ("plain", "recomputed")
#: Values nearer than this share of each other are one curve: runs differ in a few hundred bytes.
ALIKE = 0.02
#: What is measured of retained memory beside what the laws count.
_STATES = "; measured with the random state that regions keep"


class Curve(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Points that some variants measured, or (without variants) that the law gives."""

    path: Path
    variants: list[str]
    points: list[tuple[float, float]]


class Chart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One quantity of one law over its cases."""

    law: str
    title: str
    source: str
    words: str
    at: str
    constants: dict[str, int]
    quantity: Quantity
    unit: str
    cases: list[str]
    laws: list[Curve]
    curves: list[Curve]


def charts(cases: Sequence[Case], results: Mapping[str, Mapping[str, Result]]) -> list[Chart]:
    """A chart for every quantity of every law that results are at hand for.

    `results` are by case id and variant id.
    """
    by_law: dict[tuple[str, tuple[tuple[str, int], ...]], list[tuple[Law, Case]]] = {}
    for case in cases:
        if case.law is not None and case.id in results:
            key = (case.law.name, tuple(sorted(case.law.constants.items())))
            by_law.setdefault(key, []).append((case.law, case))
    return [chart for points in by_law.values() for chart in _charts(points, results)]


def _charts(
    points: Sequence[tuple[Law, Case]], results: Mapping[str, Mapping[str, Result]]
) -> Iterator[Chart]:
    points = sorted(points, key=lambda pair: pair[0].at)
    first = points[0][0]
    growth = LAWS[first.name]
    for quantity in QUANTITIES:
        laws = [
            Curve(
                path=path,
                variants=[],
                points=[(law.at, formulas[quantity](law.at, law.constants)) for law, _ in points],
            )
            for path, formulas in zip(PATHS, (growth.plain, growth.recomputed), strict=True)
            if quantity in formulas
        ]
        curves = [
            curve
            for path in PATHS
            for curve in _measured(points, results, quantity, path, growth.unit)
        ]
        if laws and curves:
            yield Chart(
                law=first.name,
                title=growth.title,
                source=growth.source,
                words=growth.words[quantity] + (_STATES if quantity == "retained" else ""),
                at=growth.at,
                constants=dict(first.constants),
                quantity=quantity,
                unit="runs of a statement" if quantity == "executions" else growth.unit,
                cases=[case.id for _, case in points],
                laws=laws,
                curves=curves,
            )


def _measured(
    points: Sequence[tuple[Law, Case]],
    results: Mapping[str, Mapping[str, Result]],
    quantity: Quantity,
    path: Path,
    unit: str,
) -> Iterator[Curve]:
    by_variant: dict[str, list[tuple[float, float]]] = {}
    for law, case in points:
        for variant, result in results[case.id].items():
            value = _value(case, result, quantity, path, unit)
            if value is not None:
                by_variant.setdefault(variant, []).append((law.at, value))
    groups: list[tuple[list[str], list[tuple[float, float]]]] = []
    for variant, curve in by_variant.items():
        home = next((members for members, other in groups if _alike(curve, other)), None)
        if home is None:
            groups.append(([variant], curve))
        else:
            home.append(variant)
    for members, curve in groups:
        yield Curve(path=path, variants=members, points=curve)


def _alike(a: Sequence[tuple[float, float]], b: Sequence[tuple[float, float]]) -> bool:
    return [x for x, _ in a] == [x for x, _ in b] and all(
        math.isclose(left, right, rel_tol=ALIKE, abs_tol=ALIKE)
        for (_, left), (_, right) in zip(a, b, strict=True)
    )


def _value(case: Case, result: Result, quantity: Quantity, path: Path, unit: str) -> float | None:
    """The quantity as it was observed; `None` where it was not."""
    observation, expected = result.observation, result.expected
    if observation is None or expected is None or expected.memory is None:
        return None
    run: Run = getattr(observation, path)
    if quantity == "executions":
        return _executions(case, run)
    number = run.retained if quantity == "retained" else run.peak
    if number is None:
        return None
    if quantity == "retained" and run.random_state is not None:
        number += run.random_state.nbytes
    return number if unit == "bytes" else number / expected.memory.unit


def _executions(case: Case, run: Run) -> float | None:
    counted = case.counted()
    counts = [e.count for e in run.executions or () if (e.region, e.statement) in counted]
    return sum(counts) if counts else None


# -- drawing -----------------------------------------------------------------------------------------


class Frame:
    """Where a chart's points lie in its drawing: both axes logarithmic, in units of the SVG."""

    width, height, left, right, top, bottom = 460, 260, 62, 14, 10, 40

    def __init__(self, chart: Chart) -> None:
        drawn = [p for curve in (*chart.laws, *chart.curves) for p in curve.points]
        self.columns = sorted({x for x, _ in drawn})
        values = [y for _, y in drawn if y > 0]
        self.low = math.floor(math.log10(min(values))) if values else 0
        self.high = max(self.low + 1, math.ceil(math.log10(max(values)))) if values else 1

    def x(self, value: float) -> float:
        first, last = math.log(self.columns[0]), math.log(self.columns[-1])
        share = (math.log(value) - first) / (last - first) if last > first else 0.5
        return round(self.left + 12 + share * (self.width - self.left - self.right - 24), 1)

    def y(self, value: float) -> float:
        """The y coordinate of a value. Zero is drawn at the lower edge, since a logarithmic axis
        has no zero.
        """
        power = math.log10(value) if value > 0 else self.low
        share = min(1.0, max(0.0, (power - self.low) / (self.high - self.low)))
        return round(self.height - self.bottom - share * (self.height - self.top - self.bottom), 1)

    def line(self, points: Iterable[tuple[float, float]]) -> str:
        """The `points` of a polyline."""
        return " ".join(f"{self.x(x)},{self.y(y)}" for x, y in points)

    def decades(self) -> list[tuple[float, str]]:
        """Height and label of each power of ten."""
        return [(self.y(10.0**n), _short(10.0**n)) for n in range(self.low, self.high + 1)]


def _short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g} {letter}"
    return f"{value:g}"
