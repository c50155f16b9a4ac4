"""Causes by releases: in which releases of a framework each known deviation shows.

An adapter's `history.csv` holds what its runs on several releases gave, a column for each release: for
cases of a variant that came out alike, the causes that explain what deviates there, and `?check` for
each check that was not observed. Pairs in which no release deviates are only counted, in the first row.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import InvalidVersion, Version

from conformance.errors import ResultsError
from conformance.judge.outcomes import Outcome, of_result
from conformance.model.result import Pair, Result, Results
from conformance.model.verdict import Status

#: Cells of pairs that were not run, and of those that the variant cannot express.
NOT_RUN, NOT_OFFERED = "-", "n/a"
#: The name under which deviations without a cause are counted.
UNEXPECTED = "unexpected"
_PAIRS = "pairs"
_QUIET = {Outcome.NOT_OFFERED: NOT_OFFERED, Outcome.NOT_RUN: NOT_RUN}


@dataclass(frozen=True)
class Row:
    """A cause, and in how many pairs it shows in each release; `None` where none of the pairs that show
    it in some release ran."""

    cause: str
    shows: tuple[int | None, ...]

    @property
    def changed(self) -> bool:
        """Whether it shows in some of the releases that ran its pairs, and not in others."""
        return len({bool(number) for number in self.shows if number is not None}) > 1


@dataclass(frozen=True)
class History:
    """What came of pairs on releases, the oldest first: `pairs` counts those that ran, `cells` maps
    each pair that deviates somewhere to its cells by release."""

    releases: tuple[str, ...] = ()
    pairs: Mapping[str, int] = field(default_factory=dict)
    cells: Mapping[Pair, Mapping[str, str]] = field(default_factory=dict)

    def with_runs(self, runs: Iterable[Results], package: str) -> "History":
        """The history with these runs in the place of what it has of their releases. A release is the
        version of `package`."""
        pairs, cells = dict(self.pairs), {pair: dict(row) for pair, row in self.cells.items()}
        for run in runs:
            release = run.header.versions.get(package, "")
            if not release or "device" in run.header.versions:
                raise ResultsError(f"the run names no version of {package}", where=run.path)
            made = {result.pair: _cell(result) for result in run.results}
            release = Version(release).public  # without the name of a build, as in 2.13.0+cpu
            pairs[release] = sum(cell not in (NOT_RUN, NOT_OFFERED) for cell in made.values())
            for pair in cells.keys() | made.keys():
                cells.setdefault(pair, {})[release] = made.get(pair, NOT_RUN)
        releases = tuple(sorted(pairs, key=Version))
        return History(releases, pairs, {p: row for p, row in cells.items() if _causes(row)})

    @property
    def rows(self) -> tuple[Row, ...]:
        """A row for each cause, those that came or went first."""
        found: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(self.releases, 0))
        ran: dict[str, set[str]] = defaultdict(set)
        for cells in self.cells.values():
            for cause in _causes(cells):
                shown = {r for r, cell in cells.items() if cause in _names(cell)}
                # Where less was observed than where the cause shows, nothing tells whether it does.
                seen = [_unseen(cells[release]) for release in shown]
                ran[cause] |= shown | {
                    release
                    for release, cell in cells.items()
                    if cell not in (NOT_RUN, NOT_OFFERED)
                    and any(_unseen(cell) <= unseen for unseen in seen)
                }
                for release in shown:
                    found[cause][release] += 1
        rows = [
            Row(cause, tuple(number if r in ran[cause] else None for r, number in shows.items()))
            for cause, shows in found.items()
        ]
        return tuple(sorted(rows, key=lambda row: (not row.changed, row.cause)))


def read(file: Path) -> History:
    """The history in a file; an empty one where there is no file. Raises `ResultsError`."""
    if not file.is_file():
        return History()
    try:
        (_, _, *releases), first, *rows = csv.reader(io.StringIO(file.read_text("utf-8")))
        pairs = {r: int(number) for r, number in zip(releases, first[2:], strict=True)}
        cells = {
            (case, variant): dict(zip(releases, row, strict=True))
            for variant, cases, *row in rows
            for case in cases.split()
        }
        return History(tuple(sorted(releases, key=Version)), pairs, cells)
    except (ValueError, csv.Error, InvalidVersion) as error:
        hint = "make it anew: `python tools/history.py`"
        raise ResultsError(f"the history is malformed: {error}", where=file, hint=hint) from error


def stored(reports: Path, adapter: str) -> list[Path]:
    """The files of results of an adapter's releases, those that `tox run -e jax-0.6.2` leaves."""
    return sorted(reports.glob(f"{adapter}-*/{adapter}.db"))


def written(history: History) -> str:
    """The history as CSV: pairs with the same cells are one row."""
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for (case, variant), cells in history.cells.items():
        row = (cells.get(release, NOT_RUN) for release in history.releases)
        alike[variant, *row].append(case)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["variant", "cases", *history.releases])
    writer.writerow([_PAIRS, "", *(history.pairs[release] for release in history.releases)])
    writer.writerows(
        [v, " ".join(sorted(cases)), *row] for (v, *row), cases in sorted(alike.items())
    )
    return text.getvalue()


def _cell(result: Result) -> str:
    """The causes of what deviates, `unexpected` for what has none, and the checks not observed."""
    outcome = of_result(result)
    if outcome in _QUIET:
        return _QUIET[outcome]
    faulty = [verdict for verdict in result.verdicts if verdict.status.deviates]
    causes = sorted({v.known.cause for v in faulty if v.known is not None})
    unexplained = (v for v in faulty if v.known is None and v.status is not Status.WARN)
    if any(unexplained) or outcome is Outcome.BROKEN:
        causes.append(UNEXPECTED)
    unseen = () if result.observation is None else sorted(result.observation.unobserved)
    return " ".join([*causes, *(f"?{check.replace(' ', '-')}" for check in unseen)])


def _causes(cells: Mapping[str, str]) -> set[str]:
    return {name for cell in cells.values() for name in _names(cell)}


def _names(cell: str) -> Sequence[str]:
    words = () if cell in (NOT_RUN, NOT_OFFERED) else cell.split()
    return [word for word in words if not word.startswith("?")]


def _unseen(cell: str) -> set[str]:
    return {word for word in cell.split() if word.startswith("?")}


def in_words(history: History, row: Row) -> Iterator[str]:
    """What a release changed: `new in 0.5.3`, `gone in 0.7.2`."""
    before: bool | None = None
    for release, number in zip(history.releases, row.shows, strict=True):
        if number is not None:
            if before is not None and bool(number) is not before:
                yield f"{'new' if number else 'gone'} in {release}"
            before = bool(number)
