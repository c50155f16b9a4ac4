"""`conformance export`: results as JSON lines or CSV, for other tools."""

import csv
import io
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from conformance.cli.compare import ResultsFiles, read_all
from conformance.cli.options import ReportsFolder
from conformance.judge.outcomes import of_verdict
from conformance.model.result import Result, Results
from conformance.model.verdict import KnownNote
from conformance.paths import find_paths
from conformance.store import numbers_of
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


_PAIR = ("adapter", "variant", "case")
#: The columns of each kind of rows.
COLUMNS = {
    Rows.VERDICTS: (
        *(*_PAIR, "check", "level", "status", "outcome", "message"),
        *("cause", "kind", "reason", "instead", "url", "seconds"),
    ),
    Rows.NUMBERS: (*_PAIR, "run", "number", "region", "statement", "phase", "value"),
}


def export(
    what: Annotated[Rows, typer.Argument(help="The kind of rows.")] = Rows.VERDICTS,
    files: ResultsFiles = [],  # noqa: B006 (typer copies it)
    style: Annotated[
        Format, typer.Option("--format", help="The format of the output.")
    ] = Format.JSONL,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="The file to write to [default: standard output]"),
    ] = None,
    reports: ReportsFolder = None,
) -> None:
    """Write results as JSON lines or CSV.

    verdicts: a row for each check of a case on a variant, with the known deviation that explains it.

    numbers: a row for each number measured in the plain and in the recomputed run: executions,
    retained bytes, peak bytes.

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
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(_harmless, row) for row in rows)
    return text.getvalue()


def _harmless(cell: Cell) -> Cell:
    """Text on one line that a spreadsheet does not take for a formula; a number as it is."""
    if not isinstance(cell, str):
        return cell
    joined = " ".join(cell.replace("\0", " ").split())
    return f"'{joined}" if joined.startswith(_FORMULA) else joined


def _verdicts(result: Result) -> Iterator[tuple[Cell, ...]]:
    seconds = None if result.observation is None else round(result.observation.seconds, 3)
    for verdict in result.verdicts:
        known = verdict.known or KnownNote("", "")
        yield (
            *(verdict.check, verdict.level.value, verdict.status.value),
            *(of_verdict(verdict, result).value, verdict.message),
            *(known.cause, known.kind, known.reason, known.instead, known.url, seconds),
        )


def _numbers(result: Result) -> Iterator[tuple[Cell, ...]]:
    seen = result.observation
    runs = {} if seen is None else {"plain": seen.plain, "recomputed": seen.recomputed}
    for name, run in runs.items():
        yield from ((name, *row) for row in numbers_of(run) if not row[0].startswith("random"))
