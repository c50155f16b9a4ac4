"""The same rows beside each other: a case on two variants, or a case on a variant in several runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from conformance.errors import ComparisonError, ResultsError, nearest
from conformance.judge.outcomes import Outcome, of_result, of_verdict, recomputed, unoffered
from conformance.model.case import Case
from conformance.model.result import Header, Result, Results

#: Bytes count as unchanged where they differ by at most this fraction of the first number.
TOLERANCE = 0.02
_NOT_JUDGED = frozenset({Outcome.NOT_RUN, Outcome.UNSEEN})
#: From the worst to the best. No longer to offer what a case needs is worse than to cost more.
_WORST_FIRST = (
    Outcome.BROKEN,
    Outcome.WRONG,
    Outcome.RAISES,
    Outcome.LIMIT,
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
        return tuple(row for row in self.rows if row.change == change)


#: The outcome and the numbers of a case on a variant.
_Seen = tuple[Side, Mapping[str, int]]
#: Those of a column without a result.
_NONE: _Seen = Side(Outcome.NOT_RUN), MappingProxyType({})


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
    columns: dict[str, dict[str, _Seen]] = {
        results[0].variant: {result.case: (side_of(result), {}) for result in results}
        for results in (left, right)
    }
    return _beside(columns, {case.id: case.title for case in cases})


def of_variant(variant: str, results: Sequence[Results]) -> tuple[Result, ...]:
    """The results of a variant (full id). Raises `ResultsError` where there are none."""
    found = tuple(r for run in results for r in run.results if r.variant == variant)
    if not found:
        known = [v for run in results for v in run.header.variants]
        raise ResultsError(f"found no results of {variant!r}", hint=nearest(variant, known))
    return found


def run_by_run(runs: Mapping[str, Iterable[Results]]) -> SideBySide:
    """What changed between runs, each a name and its results, in the order given.

    Cases and variants are those of the adapters that all runs have. Results are read one by one, and
    little is kept of each. Raises `ComparisonError` where there is no such adapter, a run has one
    twice, or runs have different cases.
    """
    kept = {
        name: [(replace(run, results=()), _seen(run)) for run in results]
        for name, results in runs.items()
    }
    belong_together([run for run, _ in of_run] for of_run in kept.values())
    found = {n: {run.header.adapter: (run, s) for run, s in of_run} for n, of_run in kept.items()}
    adapters = [a for a in next(iter(found.values())) if all(a in own for own in found.values())]
    if not adapters:
        names = "; ".join(f"{', '.join(own)} in {name}" for name, own in found.items())
        hint = "pass runs of the same adapters, or one folder with all results"
        raise ComparisonError(f"the runs have no adapter in common: {names}", hint=hint)
    columns = {
        name: {place: seen for a in adapters for place, seen in own[a][1].items()}
        for name, own in found.items()
    }
    headers = ([own[adapter][0].header for own in found.values()] for adapter in adapters)
    versions = tuple(version for of_adapter in headers for version in _versions(of_adapter))
    return replace(_beside(columns), of_runs=True, versions=versions)


def _seen(run: Results) -> dict[str, _Seen]:
    return {f"{r.case} on {r.variant}": (side_of(r), _numbers(r)) for r in run.results}


def belong_together(runs: Iterable[Sequence[Results]]) -> None:
    """Raise `ComparisonError` if a run has an adapter twice, or results are of different cases."""
    first: Results | None = None
    for results in runs:
        seen: dict[str, Results] = {}
        for run in results:
            first = first or run
            other = seen.setdefault(run.header.adapter, run)
            if other is not run:
                words = f"{other.path} and {run.path} are both results of adapter"
                raise ComparisonError(f"{words} {run.header.adapter!r}", hint="keep one of them")
            one, two = first.header.cases, run.header.cases
            if one != two:
                words = f"{first.path} and {run.path} are results of different cases"
                hint = "run both again on the same cases"
                raise ComparisonError(f"{words} ({one[:12]} and {two[:12]})", hint=hint)


def _beside(
    columns: Mapping[str, Mapping[str, _Seen]], titles: Mapping[str, str] = MappingProxyType({})
) -> SideBySide:
    groups: dict[tuple[Side, ...], list[str]] = {}
    measured: list[Measured] = []
    absent = dict.fromkeys(columns, 0)
    same = 0
    for key in dict.fromkeys(key for column in columns.values() for key in column):
        seen = [column.get(key, _NONE) for column in columns.values()]
        sides = tuple(side for side, _ in seen)
        ran = [side.outcome for side in sides if side.outcome not in _NOT_JUDGED]
        for name, side in zip(columns, sides, strict=True):
            absent[name] += bool(ran) and side.outcome in _NOT_JUDGED
        if len(set(ran)) > 1:
            groups.setdefault(sides, []).append(key)
        elif len(ran) == len(columns):
            differing = list(_differing(key, [numbers for _, numbers in seen]))
            measured += differing
            same += not differing
    rows = [
        Row(titles.get(listed[0], listed[0]), tuple(listed), sides)
        for sides, listed in groups.items()
    ]
    rows.sort(key=lambda row: (min(s.outcome.rank for s in row.sides), -len(row.where)))
    return SideBySide(False, tuple(columns), tuple(rows), same, absent, tuple(measured))


def _versions(headers: Sequence[Header]) -> Iterator[Measured]:
    """Packages whose versions differ between runs of an adapter."""
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


def _differing(place: str, columns: Sequence[Mapping[str, int]]) -> Iterator[Measured]:
    """The numbers of a place that all columns have, and that are not the same in all."""
    for what, first in columns[0].items():
        values = [numbers[what] for numbers in columns if what in numbers]
        most = TOLERANCE * max(first, 1) if what.startswith("bytes") else 0
        if len(values) == len(columns) and any(abs(v - first) > most for v in values):
            yield Measured(f"{place}: {what}", tuple(map(str, values)))
