"""The same rows beside each other: a case on two variants, or a case on a variant in several runs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from conformance.errors import ComparisonError, ResultsError
from conformance.judge.outcomes import Outcome, of_result, of_verdict, recomputed, unoffered
from conformance.model.case import Case
from conformance.model.result import Result, Results

#: Bytes count as unchanged where they differ by at most this fraction of the first number.
TOLERANCE = 0.02
_NOT_JUDGED = frozenset({Outcome.NOT_RUN, Outcome.UNSEEN})
#: From the worst to the best. No longer to offer what a case needs is worse than to cost more.
_WORST_FIRST = (
    Outcome.BROKEN,
    Outcome.WRONG,
    Outcome.RAISES,
    Outcome.INERT,
    Outcome.NOT_OFFERED,
    Outcome.COSTS,
    Outcome.WARNS,
    Outcome.RIGHT,
)


@dataclass(frozen=True)
class Side:
    """A variant's outcome on a case, and the message of the verdict that gives it."""

    outcome: Outcome
    message: str = ""

    @property
    def text(self) -> str:
        """The outcome in words, and why."""
        if self.outcome in (Outcome.RIGHT, Outcome.UNSEEN) or not self.message:
            return self.outcome.value
        return f"{self.outcome.value}: {self.message}"


@dataclass(frozen=True)
class Row:
    """What has these sides, one for each column, not all with the same outcome.

    `where` are cases, or cases with their variants (`case on variant`); `title` says the first.
    """

    title: str
    where: tuple[str, ...]
    sides: tuple[Side, ...]

    @property
    def change(self) -> str:
        """Whether the last column is `worse` or `better` than the one before that has an outcome;
        empty where it is neither."""
        judged = [s.outcome for s in self.sides[:-1] if s.outcome not in _NOT_JUDGED]
        last = self.sides[-1].outcome
        if not judged or last in (*_NOT_JUDGED, judged[-1]):
            return ""
        return "worse" if _WORST_FIRST.index(last) < _WORST_FIRST.index(judged[-1]) else "better"


@dataclass(frozen=True)
class Measured:
    """Something that is not the same in all columns: a number or a version, empty where unknown."""

    what: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class SideBySide:
    """Columns (variants or runs) beside each other.

    `rows` come by severity. `measured` are numbers that differ where outcomes do not. `same` counts
    what has the same outcome and numbers in all columns; `absent` counts, by column, what only
    others ran. Of runs (`of_runs`), a later one may be worse.
    """

    of_runs: bool
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    same: int
    absent: Mapping[str, int]
    measured: tuple[Measured, ...] = ()
    versions: tuple[Measured, ...] = ()

    def changed(self, change: str) -> tuple[Row, ...]:
        """The rows with this `change`."""
        return tuple(row for row in self.rows if row.change == change)


#: The side of a column without a result.
_NONE = Side(Outcome.NOT_RUN)


def side_of(result: Result) -> Side:
    """The outcome of a result, and the message of the verdict that gives it."""
    outcome = of_result(result)
    apart = outcome in (Outcome.NOT_OFFERED, Outcome.NOT_RUN)
    telling = [v for v in result.verdicts if apart or of_verdict(v, result) is outcome]
    if outcome is Outcome.RIGHT or not telling:
        return Side(outcome)
    # Without the variant's name, so that two variants give the same words.
    reason = unoffered(telling[0])
    return Side(outcome, reason.words if reason else telling[0].message)


def side_by_side(
    left: Sequence[Result], right: Sequence[Result], cases: Sequence[Case]
) -> SideBySide:
    """What differs between two variants, from the results of each, case by case."""
    names = tuple(results[0].variant for results in (left, right))
    titles = {case.id: case.title for case in cases}
    columns = [{result.case: side_of(result) for result in results} for results in (left, right)]
    return _beside(names, columns, titles=titles)


def of_variant(variant: str, results: Sequence[Results]) -> tuple[Result, ...]:
    """The results of a variant (full id). Raises `ResultsError` where there are none."""
    found = tuple(r for run in results for r in run.results if r.variant == variant)
    if found:
        return found
    known = [v for run in results for v in run.header.variants]
    near = difflib.get_close_matches(variant, known, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
    raise ResultsError(f"no results of {variant!r} here", hint=hint)


def run_by_run(runs: Mapping[str, Iterable[Results]]) -> SideBySide:
    """What changed between runs, each a name and its results, in the order given.

    Cases and variants are those of the adapters that all runs have. Results are read one by one, and
    little is kept of each. Raises `ComparisonError` where there is no such adapter, a run has one
    twice, or runs have different cases.
    """
    kept = [[_Kept.of(run) for run in results] for results in runs.values()]
    belong_together([[one.run for one in of_run] for of_run in kept])
    by_adapter = [{one.run.header.adapter: one for one in of_run} for of_run in kept]
    adapters = [name for name in by_adapter[0] if all(name in found for found in by_adapter)]
    if not adapters:
        each = zip(runs, by_adapter, strict=True)
        names = "; ".join(f"{', '.join(found)} in {name}" for name, found in each)
        hint = "give runs of the same adapters, or one folder with all results"
        raise ComparisonError(f"no adapter in common: {names}", hint=hint)
    chosen = [[found[name] for name in adapters] for found in by_adapter]
    sides = [{p: side for one in of_run for p, side in one.sides.items()} for of_run in chosen]
    numbers = [{p: n for one in of_run for p, n in one.numbers.items()} for of_run in chosen]
    table = _beside(tuple(runs), sides, measured=_differing(numbers))
    return replace(table, of_runs=True, versions=tuple(_versions(chosen)))


@dataclass(frozen=True)
class _Kept:
    """What is kept of the results of an adapter: outcomes and numbers by place, and `run` without
    results."""

    run: Results
    sides: dict[str, Side]
    numbers: dict[str, dict[str, int]]

    @classmethod
    def of(cls, run: Results) -> _Kept:
        by_place = {f"{result.case} on {result.variant}": result for result in run.results}
        return cls(
            replace(run, results=()),
            {place: side_of(result) for place, result in by_place.items()},
            {place: _numbers(result) for place, result in by_place.items()},
        )


def belong_together(runs: Iterable[Sequence[Results]]) -> None:
    """Raise `ComparisonError` if a run has an adapter twice, or results are of different cases."""
    first: Results | None = None
    for results in runs:
        seen: dict[str, Results] = {}
        for run in results:
            first, name = first or run, run.header.adapter
            if name in seen:
                raise ComparisonError(
                    f"{seen[name].path} and {run.path} are both results of adapter {name!r}",
                    hint="keep one of them",
                )
            seen[name] = run
            one, two = first.header.cases, run.header.cases
            if one != two:
                raise ComparisonError(
                    f"{first.path} and {run.path} are results of different cases "
                    f"({one[:12]} and {two[:12]})",
                    hint="run both again on the same cases",
                )


def _beside(
    names: tuple[str, ...],
    columns: Sequence[Mapping[str, Side]],
    *,
    titles: Mapping[str, str] = MappingProxyType({}),
    measured: Iterable[tuple[str, Measured]] = (),
) -> SideBySide:
    groups: dict[tuple[Side, ...], list[str]] = {}
    alike: set[str] = set()
    absent = dict.fromkeys(names, 0)
    for key in dict.fromkeys(key for column in columns for key in column):
        sides = tuple(column.get(key, _NONE) for column in columns)
        ran = [side.outcome for side in sides if side.outcome not in _NOT_JUDGED]
        for name, side in zip(names, sides, strict=True):
            absent[name] += bool(ran) and side.outcome in _NOT_JUDGED
        if len(set(ran)) > 1:
            groups.setdefault(sides, []).append(key)
        elif len(ran) == len(names):
            alike.add(key)
    rows = [
        Row(titles.get(listed[0], listed[0]), tuple(listed), sides)
        for sides, listed in groups.items()
    ]
    rows.sort(key=lambda row: (min(s.outcome.rank for s in row.sides), -len(row.where)))
    differing = [(key, number) for key, number in measured if key in alike]
    same = len(alike - {key for key, _ in differing})
    numbers = tuple(number for _, number in differing)
    return SideBySide(False, names, tuple(rows), same, absent, numbers)


def _versions(runs: Sequence[Sequence[_Kept]]) -> Iterator[Measured]:
    """Packages whose versions differ."""
    for same in zip(*runs, strict=True):
        headers = [one.run.header for one in same]
        for package in dict.fromkeys(name for header in headers for name in header.versions):
            values = tuple(header.versions.get(package, "none") for header in headers)
            if len(set(values)) > 1:
                yield Measured(f"{headers[0].adapter}: {package}", values)


def _numbers(result: Result) -> dict[str, int]:
    """Bytes, and how often each region, or each statement of one, runs again in backward."""
    run = recomputed(result)
    if run is None:
        return {}
    of_bytes = {"bytes retained": run.retained, "bytes at the peak": run.peak}
    numbers = {what: value for what, value in of_bytes.items() if value is not None}
    for e in run.executions or ():
        if e.region:
            name = f"{e.statement} of {e.region}" if e.statement else e.region
            what = f"{name} runs again, times"
            numbers[what] = numbers.get(what, 0) + (e.count if e.phase == "rerun" else 0)
    return numbers


def _differing(
    columns: Sequence[Mapping[str, Mapping[str, int]]],
) -> Iterator[tuple[str, Measured]]:
    """Numbers that are not the same in all columns, each with its row's place."""
    for place, of_first in columns[0].items():
        numbers = [column.get(place, {}) for column in columns]
        for what, first in of_first.items():
            values = [of_column[what] for of_column in numbers if what in of_column]
            most = TOLERANCE * max(first, 1) if what.startswith("bytes") else 0
            if len(values) == len(columns) and any(abs(v - first) > most for v in values):
                yield place, Measured(f"{place}: {what}", tuple(map(str, values)))
