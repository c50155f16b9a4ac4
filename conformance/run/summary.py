"""The end of a run in words: a table of variants by statuses, then what was unexpected."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import pytest
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from conformance.drivers.adapter import Discipline
from conformance.judge.known import Entry
from conformance.judge.triage import Triage, Triaged
from conformance.model.verdict import Status
from conformance.results import Footer, Result
from conformance.results.triage import cause, covered, triaged
from conformance.words import counted

#: How many unexpected verdicts are printed, and how many of one kind; all are in the results file. Of
#: what is `broken` for one reason, one is enough.
LISTED = 40
LISTED_OF_A_KIND = 5
LISTED_BROKEN = 1
_KNOWN = "known"
_STYLES = {
    Status.PASS: "green",
    Status.FAIL: "red",
    Status.WARN: "yellow",
    Status.CRASHED: "red",
    Status.TIMEOUT: "red",
    Status.BROKEN: "magenta",
    Status.UNSUPPORTED: "dim",
}


@dataclass(frozen=True)
class Unexpected:
    """A verdict that nobody expected; `reason` says what is unexpected about a known deviation.

    Those of one `kind` have one cause as far as can be told (`conformance.results.triage.cause`).
    """

    check: str
    status: Status
    message: str
    reason: str
    kind: str = ""

    @classmethod
    def of(cls, triaged: Triaged) -> Unexpected:
        """Of a triaged verdict; a known deviation that is gone is of another kind than a new one."""
        verdict = triaged.verdict
        gone = "gone" if triaged.entry is not None else ""
        kind = f"{verdict.check} {cause(verdict)} {gone}"
        return cls(verdict.check, verdict.status, verdict.message, triaged.reason, kind)


@dataclass(frozen=True)
class Tally:
    """What the end of a run has to know of one result.

    `statuses` counts its verdicts, `counted` does so with known deviations apart. `covered` are the
    positions of the known deviations that speak of it, in their list. `fits` are the disciplines under
    which its executions would be as expected, where they are not, of somebody's own recompute.
    """

    case: str
    variant: str
    program: str
    statuses: Mapping[Status, int]
    counted: Mapping[str, int]
    unexpected: tuple[Unexpected, ...]
    covered: tuple[int, ...]
    fits: tuple[Discipline, ...] = ()

    @classmethod
    def of(
        cls, result: Result, entries: Sequence[Entry], fits: tuple[Discipline, ...] = ()
    ) -> Tally:
        """The tally of a result, triaged with the known deviations of its adapter."""
        verdicts = triaged(entries, result)
        return cls(
            result.case,
            result.variant,
            result.program,
            dict(Counter(verdict.status for verdict in result.verdicts)),
            dict(Counter(_column(verdict) for verdict in verdicts)),
            tuple(Unexpected.of(v) for v in verdicts if v.triage is Triage.UNEXPECTED),
            covered(entries, result),
            fits,
        )


@dataclass
class AdapterRun:
    """What became of an adapter, result by result: `broken` is why it did not start, or empty, and
    `interrupted` what ended it early; `unwritten` that its results could not be written.

    `unexpected` holds the first of each kind, `kinds` is how many there are of it.
    """

    name: str
    variants: tuple[str, ...]
    file: Path
    stale: tuple[Entry, ...] = ()
    broken: str = ""
    interrupted: str = ""
    unwritten: bool = False
    results: int = 0
    cases: set[str] = field(default_factory=set)
    statuses: Counter[Status] = field(default_factory=Counter)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    unexpected: list[tuple[Tally, Unexpected]] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    covered: set[int] = field(default_factory=set)
    #: How many results have other executions than expected, and how many of them those that are expected
    #: under another discipline.
    misfits: int = 0
    fits: Counter[Discipline] = field(default_factory=Counter)

    def add(self, tally: Tally) -> None:
        """Add a result."""
        self.results += 1
        self.cases.add(tally.case)
        self.statuses.update(tally.statuses)
        self.counts.setdefault(tally.variant, Counter()).update(tally.counted)
        self.covered.update(tally.covered)
        unexpected = ((verdict.check, verdict.status) for verdict in tally.unexpected)
        self.misfits += ("executions", Status.FAIL) in unexpected
        self.fits.update(tally.fits)
        for verdict in tally.unexpected:
            self.kinds[verdict.kind] += 1
            most = LISTED_BROKEN if verdict.status is Status.BROKEN else LISTED_OF_A_KIND
            if self.kinds[verdict.kind] <= most:
                self.unexpected.append((tally, verdict))

    @property
    def hint(self) -> str:
        """What may be wrong with the run itself, in a line; empty where nothing is."""
        if not self.fits:
            return ""
        discipline, number = self.fits.most_common(1)[0]
        if 2 * number < self.misfits:
            return ""
        return (
            f"hint: {number} of {self.misfits} wrong results of executions are those of {discipline}: "
            f"say --discipline {discipline}, or have --probe find out what the function offers"
        )

    @property
    def footer(self) -> Footer:
        """The footer of its results, without seconds."""
        statuses = {status: self.statuses[status] for status in Status if self.statuses[status]}
        return Footer(self.results, statuses)


def print_summary(runs: Sequence[AdapterRun], reporter: pytest.TerminalReporter) -> None:
    """Print the summary where pytest prints."""
    colour = reporter.hasmarkup
    width = reporter._tw.fullwidth if colour else 160
    console = Console(
        file=io.StringIO(), force_terminal=colour, no_color=not colour, width=width, highlight=False
    )
    print_parts(runs, console)
    assert isinstance(console.file, io.StringIO)
    reporter.write(console.file.getvalue())


def print_parts(runs: Sequence[AdapterRun], console: Console) -> None:
    """Print the summary; its lines are never broken."""
    for part in summary(runs):
        console.print(part, soft_wrap=isinstance(part, Text))


def summary(runs: Sequence[AdapterRun]) -> list[Table | Text]:
    """The whole summary, part by part."""
    parts: list[Table | Text] = []
    if any(run.results for run in runs):
        parts.append(status_table(runs))
    number = sum(run.kinds.total() for run in runs)
    if number:
        parts.append(Text(f"unexpected verdicts: {number}", style="bold red"))
    shown = 0
    most = _most_of_a_kind(runs)
    for run in runs:
        # What the framework did first, then what the adapter lacks, and of each those of a rare kind
        # first: they would be lost behind fifty of one cause.
        by_kind = sorted(run.unexpected, key=lambda verdict: _order(run, verdict[1]))
        left_out: list[str] = []
        for kind, verdicts in groupby(by_kind, key=lambda verdict: verdict[1].kind):
            lines = [_line(run, *verdict) for verdict in verdicts][: min(most, LISTED - shown)]
            shown += len(lines)
            parts += lines
            if not lines:
                left_out.append(kind)
            elif run.kinds[kind] > len(lines):
                more = f"... and {run.kinds[kind] - len(lines)} more like it: {run.file}"
                parts.append(Text(more, style="dim"))
        if left_out:
            others = sum(run.kinds[kind] for kind in left_out)
            kinds = counted(len(left_out), "other kind")
            more = f"... and {others} more, of {kinds}: {run.file}"
            parts.append(Text(more, style="dim"))
    for run in runs:
        if run.hint:
            parts.append(Text(run.hint, style="yellow"))
        for entry in run.stale:
            line = f"{entry.where}: explains nothing in this run; take it out ({entry.reason})"
            parts.append(Text(line, style="red"))
        if run.broken:
            parts.append(Text(run.broken, style="magenta"))
            if run.file.is_file():
                parts.append(Text(f"of an earlier run, and left as they are: {run.file}"))
        if run.interrupted:
            parts.append(Text(f"{run.name} is not whole: {run.interrupted}; --resume goes on"))
    parts += [Text(f"results: {run.file}") for run in runs if run.results]
    return parts


def _most_of_a_kind(runs: Sequence[AdapterRun]) -> int:
    """How many of one kind are listed, so that as many kinds as possible have a place."""
    numbers = [
        number
        for run in runs
        for number in Counter(unexpected.kind for _, unexpected in run.unexpected).values()
    ]
    fitting = (
        most
        for most in range(LISTED_OF_A_KIND, 1, -1)
        if sum(min(most, number) for number in numbers) <= LISTED
    )
    return next(fitting, 1)


def status_table(runs: Sequence[AdapterRun]) -> Table:
    """Variants by statuses. A known deviation is counted as known, whatever its status."""
    counts: dict[str, Counter[str]] = {}
    for run in runs:
        for variant in run.variants if run.results else ():
            counts[variant] = run.counts.get(variant, Counter())
    columns = [Status.PASS.value, _KNOWN]
    columns += [s.value for s in Status if s is not Status.PASS]
    columns = [name for name in columns if any(by_name[name] for by_name in counts.values())]
    table = Table(box=box.ASCII2 if len(columns) > 12 else box.SIMPLE, pad_edge=False)
    table.add_column("variant", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right")
    for variant, by_name in counts.items():
        cells = [
            Text(str(by_name[name]) if by_name[name] else "", style=_style(name))
            for name in columns
        ]
        table.add_row(variant, *cells)
    return table


def _order(run: AdapterRun, unexpected: Unexpected) -> tuple[bool, int, str]:
    """What verdicts are sorted by: `broken` ones last, then by how many of their kind there are."""
    return unexpected.status is Status.BROKEN, run.kinds[unexpected.kind], unexpected.kind


def _style(name: str) -> str:
    return "cyan" if name == _KNOWN else _STYLES.get(Status(name), "")


def _column(triaged: Triaged) -> str:
    """The column that a verdict is counted in."""
    return _KNOWN if triaged.triage is Triage.KNOWN else triaged.verdict.status.value


def _line(run: AdapterRun, tally: Tally, unexpected: Unexpected) -> Text:
    reason = f" [{unexpected.reason}]" if unexpected.reason else ""
    text = Text(f"{tally.case}[{tally.variant}] {unexpected.check}\n", style="bold")
    text.append(f"  {unexpected.status}: {unexpected.message}{reason}\n", style="default not bold")
    if tally.program:
        text.append(f"  {run.file.parent / tally.program}\n", style="not bold dim")
    text.rstrip()
    return text
