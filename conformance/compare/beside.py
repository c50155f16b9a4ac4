"""The same rows beside each other: a case on two variants, or a case on a variant in several runs."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from conformance.errors import ComparisonError, ResultsError
from conformance.judge.outcomes import Outcome, of_result, of_verdict, recomputed, unoffered
from conformance.model.case import Case
from conformance.model.observation import Observation, Run
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


def side_of(result: Result | None) -> Side:
    """The outcome and the message of a result; a missing result (`None`) is `NOT_RUN`."""
    if result is None:
        return Side(Outcome.NOT_RUN)
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
    columns = [{result.case: result for result in results} for results in (left, right)]
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


def without_arrays(run: Results) -> Results:
    """The same results with what `run_by_run` reads alone, so that many of them fit in memory."""
    light: list[Result] = []
    for result in run.results:
        seen, observation = recomputed(result), None
        if seen is not None:
            kept = Run(
                executions=seen.executions,
                retained=seen.retained,
                peak=seen.peak,
                error=seen.error,
            )
            observation = Observation(Run(), kept)
        light.append(replace(result, observation=observation, expected=None))
    return replace(run, results=tuple(light))


def run_by_run(runs: Mapping[str, Sequence[Results]]) -> SideBySide:
    """What changed between runs, each a name and its results, in the order given.

    Cases and variants are those of the adapters that all runs have. Raises `ComparisonError` where
    there is no such adapter, a run has one twice, or runs have different cases.
    """
    belong_together(runs.values())
    names = [{run.header.adapter for run in results} for results in runs.values()]
    adapters = sorted(set.intersection(*names))
    if not adapters:
        each = zip(runs, names, strict=True)
        found = "; ".join(f"{', '.join(sorted(have))} in {name}" for name, have in each)
        hint = "give runs of the same adapters, or one folder with all results"
        raise ComparisonError(f"no adapter in common: {found}", hint=hint)
    by_adapter = [{run.header.adapter: run for run in results} for results in runs.values()]
    chosen = [[of_run[adapter] for adapter in adapters] for of_run in by_adapter]
    columns = [
        {f"{r.case} on {r.variant}": r for run in results for r in run.results}
        for results in chosen
    ]
    table = _beside(tuple(runs), columns, measured=_numbers(columns))
    return replace(table, of_runs=True, versions=tuple(_versions(chosen)))


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
    columns: Sequence[Mapping[str, Result]],
    *,
    titles: Mapping[str, str] = MappingProxyType({}),
    measured: Iterable[tuple[str, Measured]] = (),
) -> SideBySide:
    groups: dict[tuple[Side, ...], list[str]] = {}
    alike: set[str] = set()
    absent = dict.fromkeys(names, 0)
    for key in dict.fromkeys(key for column in columns for key in column):
        sides = tuple(side_of(column.get(key)) for column in columns)
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


def _versions(runs: Sequence[Sequence[Results]]) -> Iterator[Measured]:
    """Packages whose versions differ."""
    for same in zip(*runs, strict=True):
        headers = [run.header for run in same]
        for package in dict.fromkeys(name for header in headers for name in header.versions):
            values = tuple(header.versions.get(package, "none") for header in headers)
            if len(set(values)) > 1:
                yield Measured(f"{headers[0].adapter}: {package}", values)


def _numbers(columns: Sequence[Mapping[str, Result]]) -> Iterator[tuple[str, Measured]]:
    """Reruns and bytes that are not the same in all columns, each with its row's place."""
    for key in columns[0]:
        runs = [recomputed(column[key]) for column in columns if key in column]
        seen = [run for run in runs if run is not None]
        if len(seen) < len(columns):
            continue
        listed: list[tuple[str, list[int | None], float]] = [
            ("bytes retained", [run.retained for run in seen], TOLERANCE),
            ("bytes at the peak", [run.peak for run in seen], TOLERANCE),
        ]
        if all(run.executions is not None for run in seen):
            counts = [_reruns(run) for run in seen]
            for name in dict.fromkeys(name for count in counts for name in count):
                again = [count[name] for count in counts]
                listed.append((f"{name} runs again, times", [*again], 0.0))
        for what, values, tolerance in listed:
            numbers = [value for value in values if value is not None]
            if len(numbers) == len(columns) and any(
                abs(n - numbers[0]) > tolerance * max(numbers[0], 1) for n in numbers
            ):
                yield key, Measured(f"{key}: {what}", tuple(map(str, numbers)))


def _reruns(run: Run) -> Counter[str]:
    """How often each region, or each statement of one, runs again in backward."""
    reruns: Counter[str] = Counter()
    for e in run.executions or ():
        if e.phase == "rerun" and e.region:
            reruns[f"{e.statement} of {e.region}" if e.statement else e.region] += e.count
    return reruns
