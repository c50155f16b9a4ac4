"""`conformance export`: results as JSON lines or CSV, for other tools."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from conformance.cli.compare import read_all
from conformance.cli.options import ReportsFolder
from conformance.judge.outcomes import of_verdict
from conformance.model.observation import Run
from conformance.model.result import Result, Results
from conformance.paths import find_paths
from conformance.writing import write_text

Cell = str | int | float | None
#: First characters of a cell that a spreadsheet would run as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Rows(StrEnum):
    """What a row is about."""

    VERDICTS = "verdicts"
    NUMBERS = "numbers"


class Format(StrEnum):
    """How rows are written."""

    JSONL = "jsonl"
    CSV = "csv"


#: The columns of each kind of rows.
COLUMNS = {
    Rows.VERDICTS: (
        *("adapter", "variant", "case", "check", "level", "status", "outcome", "message"),
        *("cause", "reason", "url", "seconds"),
    ),
    Rows.NUMBERS: (
        *("adapter", "variant", "case", "run", "number", "region", "statement", "phase", "value"),
    ),
}


def export(
    what: Annotated[Rows, typer.Argument(help="What a row is about.")] = Rows.VERDICTS,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="[RESULTS]...", help="Results files [default: all in the folder]."),
    ] = [],  # noqa: B006 (typer copies it)
    style: Annotated[Format, typer.Option("--format", help="How to write it.")] = Format.JSONL,
    output: Annotated[
        Path | None, typer.Option("--output", help="File to write to [default: standard output]")
    ] = None,
    reports: ReportsFolder = None,
) -> None:
    """Write results as JSON lines or CSV, one row each.

    verdicts: a row for each check of a case on a variant, with the known deviation that explains it.

    numbers: a row for each measured number of a program's plain and recomputed run: executions,
    bytes retained, bytes at the peak.

    \b
    Examples:
      conformance export > verdicts.jsonl
      conformance export numbers --format csv --output numbers.csv
      conformance export verdicts reports/torch.db --format csv
    """
    text = rows_text(what, read_all(files, find_paths(reports=reports).reports), style)
    if output is None:
        typer.echo(text, nl=False)
        return
    write_text(output, text)
    typer.echo(f"export: {output}")


def rows_text(what: Rows, results: Sequence[Results], style: Format) -> str:
    """All rows as text; a CSV begins with the names of its columns."""
    of_result = _verdicts if what is Rows.VERDICTS else _numbers
    columns = COLUMNS[what]
    rows = (
        (run.header.adapter, result.variant, result.case, *cells)
        for run in results
        for result in run.results
        for cells in of_result(result)
    )
    if style is Format.JSONL:
        lines = (msgspec.json.encode(dict(zip(columns, row, strict=True))) for row in rows)
        return "".join(f"{line.decode()}\n" for line in lines)
    return _csv(columns, rows)


def _csv(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_harmless(cell) if isinstance(cell, str) else cell for cell in row])
    return text.getvalue()


def _harmless(cell: str) -> str:
    """Text on one line that a spreadsheet does not take for a formula."""
    joined = " ".join(cell.replace("\0", " ").split())
    return f"'{joined}" if joined.startswith(_FORMULA) else joined


def _verdicts(result: Result) -> Iterator[tuple[Cell, ...]]:
    seconds = None if result.observation is None else round(result.observation.seconds, 3)
    for verdict in result.verdicts:
        known, outcome = verdict.known, of_verdict(verdict, result)
        why = (known.cause, known.reason, known.url) if known else ("", "", "")
        yield (
            *(verdict.check, verdict.level.value, verdict.status.value, outcome.value),
            *(verdict.message, *why, seconds),
        )


def _numbers(result: Result) -> Iterator[tuple[Cell, ...]]:
    observation = result.observation
    if observation is None:
        return
    for name, run in (("plain", observation.plain), ("recomputed", observation.recomputed)):
        yield from ((name, *cells) for cells in _of_run(run))


def _of_run(run: Run) -> Iterator[tuple[str, str, str, str, int]]:
    for e in run.executions or ():
        yield "executions", e.region, e.statement, e.phase, e.count
    for number, value in (("retained bytes", run.retained), ("peak bytes", run.peak)):
        if value is not None:
            yield number, "", "", "", value
