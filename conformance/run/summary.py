"""The summary of a run: a table of outcomes by variant, then the unexpected verdicts."""

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import get_args

import pytest
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from conformance.drivers.adapter import Discipline, Variant
from conformance.judge.known import Entry
from conformance.judge.outcomes import Outcome, of_result
from conformance.judge.triage import Triage, Triaged, cause, triaged
from conformance.model.case import Case
from conformance.model.result import Result, Results
from conformance.model.verdict import Status
from conformance.run.runner import executions_under
from conformance.words import counted

#: How many unexpected verdicts are printed, and how many of one kind; all are in the results file.
LISTED, LISTED_OF_A_KIND = 40, 5
_STYLES: Mapping[str, str] = {
    Outcome.RIGHT: "green",
    Outcome.WRONG: "red",
    Outcome.RAISES: "red",
    Outcome.BROKEN: "magenta",
    Outcome.NOT_OFFERED: "dim",
    Outcome.NOT_RUN: "dim",
    "known": "cyan",
    "unexpected": "bold red",
}


#: An unexpected verdict of a result.
Unexpected = tuple[Result, Triaged]


def _kind(unexpected: Unexpected) -> str:
    """What it has in common with others of one cause, as far as can be told; a known deviation that is
    gone is of another kind."""
    verdict, entry = unexpected[1].verdict, unexpected[1].entry
    return f"{verdict.check} {cause(verdict)} {'' if entry is None else 'gone'}"


def _is_broken(unexpected: Unexpected) -> bool:
    return unexpected[1].verdict.status is Status.BROKEN


@dataclass(frozen=True)
class AdapterRun:
    """What became of an adapter: its results, `None` where there are none. `broken` is why it did not
    start, `interrupted` what ended it early, `hint` what may be wrong with the run itself."""

    name: str
    file: Path
    known: tuple[Entry, ...] = ()
    results: Results | None = None
    stale: tuple[Entry, ...] = ()
    broken: str = ""
    interrupted: str = ""
    hint: str = ""

    @cached_property
    def triaged(self) -> tuple[tuple[Result, tuple[Triaged, ...]], ...]:
        found = () if self.results is None else self.results.results
        return tuple((result, triaged(self.known, result)) for result in found)

    @cached_property
    def unexpected(self) -> tuple[Unexpected, ...]:
        return tuple(
            (result, verdict)
            for result, verdicts in self.triaged
            for verdict in verdicts
            if verdict.triage is Triage.UNEXPECTED
        )


def discipline_hint(results: Results, cases: Sequence[Case], variants: Sequence[Variant]) -> str:
    """A hint where a user's own function runs otherwise than its discipline says, and most of what is
    wrong would be right under another one; else empty."""
    own = {v.id: v for v in variants if v.implementation is not None}
    by_id = {case.id: case for case in cases}
    wrong = [
        (by_id[result.case], own[result.variant], result.observation)
        for result in results.results
        if result.variant in own and result.observation is not None
        if any(v.check == "executions" and v.status is Status.FAIL for v in result.verdicts)
    ]
    fits: Counter[str] = Counter()
    for case, variant, observation in wrong:
        for discipline in get_args(Discipline):
            verdict = None
            if discipline != variant.model.discipline:
                verdict = executions_under(case, variant, observation, discipline)
            if verdict is not None and verdict.status is Status.PASS:
                fits[discipline] += 1
    best, number = fits.most_common(1)[0] if fits else ("", 0)
    if not wrong or 2 * number < len(wrong):
        return ""
    return (
        f"hint: {number} of {len(wrong)} results that fail the check `executions` pass it under the "
        f"discipline {best}: add --discipline {best}"
    )


def print_summary(runs: Sequence[AdapterRun], reporter: pytest.TerminalReporter) -> None:
    """Print the summary where pytest prints; its lines are never broken."""
    colour = reporter.hasmarkup
    width = reporter._tw.fullwidth if colour else 160
    printed = io.StringIO()
    console = Console(
        file=printed, force_terminal=colour, no_color=not colour, width=width, highlight=False
    )
    for part in summary(runs):
        console.print(part, soft_wrap=isinstance(part, Text))
    reporter.write(printed.getvalue())


def summary(runs: Sequence[AdapterRun]) -> Iterator[Table | Text]:
    """The whole summary, part by part."""
    if any(run.results for run in runs):
        yield outcome_table(runs)
    number = sum(len(run.unexpected) for run in runs)
    if number:
        yield Text(f"unexpected verdicts: {number}", style="bold red")
    shown, most = 0, _most_of_a_kind(runs)
    for run in runs:
        for part in _unexpected(run, most, LISTED - shown):
            shown += 1
            yield part
    for run in runs:
        if run.hint:
            yield Text(run.hint, style="yellow")
        for entry in run.stale:
            words = (
                f"{entry.where}: explains nothing in this run; remove the cause ({entry.reason})"
            )
            yield Text(words, style="red")
        if run.broken:
            yield Text(run.broken, style="magenta")
            if run.file.is_file():
                yield Text(f"results of an earlier run, unchanged: {run.file}")
        if run.interrupted:
            yield Text(
                f"{run.name} is incomplete: {run.interrupted}; the same command continues it"
            )
    for run in runs:
        if run.results:
            yield Text(f"results: {run.file}")


def outcome_table(runs: Sequence[AdapterRun]) -> Table:
    """How many cases of each variant have which outcome, and how many have a known deviation or an
    unexpected verdict."""
    counts: dict[str, Counter[str]] = {}
    for run in runs:
        if run.results is None:
            continue
        counts |= {variant: Counter() for variant in run.results.header.variants}
        for result, verdicts in run.triaged:
            columns = {of_result(result).value}
            columns |= {v.triage.value for v in verdicts if v.triage is not Triage.EXPECTED}
            counts[result.variant].update(columns)
    order = [*(outcome.value for outcome in reversed(Outcome)), "known", "unexpected"]
    names = [name for name in order if any(by_name[name] for by_name in counts.values())]
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("variant", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right")
    for variant, by_name in counts.items():
        cells = [Text(f"{by_name[name] or ''}", style=_STYLES.get(name, "")) for name in names]
        table.add_row(variant, *cells)
    return table


def _most_of_a_kind(runs: Sequence[AdapterRun]) -> int:
    """How many of each kind are printed: fewer if there are many kinds, so that each has a place."""
    numbers = [n for run in runs for n in Counter(map(_kind, run.unexpected)).values()]
    fitting = (
        most
        for most in range(LISTED_OF_A_KIND, 1, -1)
        if sum(min(most, number) for number in numbers) <= LISTED
    )
    return next(fitting, 1)


def _unexpected(run: AdapterRun, most_of_a_kind: int, room: int) -> Iterator[Text]:
    """The unexpected verdicts of a run, in at most so many entries. What is `broken` comes last; rare
    kinds come first, since they would be lost behind fifty of one cause."""
    kinds = Counter(map(_kind, run.unexpected))
    listed = sorted(run.unexpected, key=lambda u: (_is_broken(u), kinds[_kind(u)], _kind(u)))
    left_out: list[str] = []
    for kind, same in groupby(listed, key=_kind):
        verdicts = list(same)
        most = min(1 if _is_broken(verdicts[0]) else most_of_a_kind, room)
        if most <= 0:
            left_out.append(kind)
            continue
        room -= min(most, len(verdicts))
        yield from (_line(run, verdict) for verdict in verdicts[:most])
        if len(verdicts) > most:
            more = f"... and {len(verdicts) - most} more like it: {run.file}"
            yield Text(more, style="dim")
    if left_out:
        others = sum(kinds[kind] for kind in left_out)
        words = f"... and {others} more, of {counted(len(left_out), 'other kind')}: {run.file}"
        yield Text(words, style="dim")


def _line(run: AdapterRun, unexpected: Unexpected) -> Text:
    result, found = unexpected
    verdict, reason = found.verdict, f" [{found.reason}]" if found.reason else ""
    text = Text(f"{result.case}[{result.variant}] {verdict.check}\n", style="bold")
    text.append(f"  {verdict.status}: {verdict.message}{reason}\n", style="default not bold")
    if result.program:
        text.append(f"  {run.file.parent / result.program}\n", style="not bold dim")
    text.rstrip()
    return text
