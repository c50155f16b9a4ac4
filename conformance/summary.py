"""The end of a run in words: a table of variants by statuses, then what was unexpected."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from _pytest.terminal import TerminalReporter
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from conformance.known import Entry, Standing, Weighed
from conformance.results import Result
from conformance.verdict import Status

#: How many unexpected verdicts are printed; all of them are in the results file.
LISTED = 40
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
class AdapterRun:
    """What became of an adapter: `broken` is why it did not start, or empty."""

    name: str
    variants: tuple[str, ...]
    file: Path
    results: tuple[Result, ...] = ()
    weighed: Mapping[tuple[str, str], tuple[Weighed, ...]] = field(default_factory=dict)
    idle: tuple[Entry, ...] = ()
    broken: str = ""

    def unexpected(self) -> Iterator[tuple[Result, Weighed]]:
        """Every unexpected verdict, in the order of the results."""
        for result in self.results:
            for item in self.weighed[result.case, result.variant]:
                if item.standing is Standing.UNEXPECTED:
                    yield result, item


def print_summary(runs: Sequence[AdapterRun], reporter: TerminalReporter) -> None:
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
        parts.append(table(runs))
    unexpected = [(run, *found) for run in runs for found in run.unexpected()]
    if unexpected:
        parts.append(Text(f"unexpected verdicts: {len(unexpected)}", style="bold red"))
    for run, result, item in unexpected[:LISTED]:
        parts.append(_line(run, result, item))
    if len(unexpected) > LISTED:
        files = ", ".join(str(run.file) for run in runs if run.results)
        parts.append(Text(f"... and {len(unexpected) - LISTED} more: {files}"))
    for run in runs:
        for entry in run.idle:
            line = f"{entry.where}: explains nothing in this run; take it out ({entry.reason})"
            parts.append(Text(line, style="red"))
        if run.broken:
            parts.append(Text(run.broken, style="magenta"))
    parts += [Text(f"results: {run.file}") for run in runs if run.results]
    return parts


def table(runs: Sequence[AdapterRun]) -> Table:
    """Variants by statuses. A known deviation is counted as known, whatever its status."""
    counts: dict[str, Counter[str]] = {}
    for run in runs:
        for variant in run.variants if run.results else ():
            counts[variant] = Counter()
        for (_, variant), items in run.weighed.items():
            for item in items:
                known = item.standing is Standing.KNOWN
                counts[variant][_KNOWN if known else item.verdict.status.value] += 1
    columns = [Status.PASS.value, _KNOWN]
    columns += [s.value for s in Status if s is not Status.PASS]
    columns = [name for name in columns if any(found[name] for found in counts.values())]
    made = Table(box=box.ASCII2 if len(columns) > 12 else box.SIMPLE, pad_edge=False)
    made.add_column("variant", no_wrap=True)
    for name in columns:
        made.add_column(name, justify="right")
    for variant, found in counts.items():
        cells = [
            Text(str(found[name]) if found[name] else "", style=_style(name)) for name in columns
        ]
        made.add_row(variant, *cells)
    return made


def _style(name: str) -> str:
    return "cyan" if name == _KNOWN else _STYLES.get(Status(name), "")


def _line(run: AdapterRun, result: Result, item: Weighed) -> Text:
    verdict = item.verdict
    reason = f" [{item.reason}]" if item.reason else ""
    text = Text(f"{result.case}[{result.variant}] {verdict.check}\n", style="bold")
    text.append(f"  {verdict.status}: {verdict.message}{reason}\n", style="default not bold")
    if result.program:
        text.append(f"  {run.file.parent / result.program}\n", style="not bold dim")
    text.rstrip()
    return text
