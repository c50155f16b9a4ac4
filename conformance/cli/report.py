"""`conformance report`: the report of one or several adapters' results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conformance.cli.compare import ResultsFiles, read_all
from conformance.cli.options import CasesFolder, ReportsFolder
from conformance.places import find_places


def report(
    files: ResultsFiles = [],  # noqa: B006 (typer copies it)
    cases: CasesFolder = None,
    reports: ReportsFolder = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="Folder to write to [default: that of the results]"),
    ] = None,
) -> None:
    """Write index.html (self-contained), report.md, report.json and report.xml (JUnit).

    \b
    Examples:
      conformance report
      conformance report reports/torch.jsonl reports/jax.jsonl --output /tmp/report
    """
    from conformance.report import write_report

    places = find_places(cases, reports=reports)
    folder = output or places.reports
    write_report(read_all(files, places.reports), folder)
    typer.echo(f"report: {folder / 'index.html'}")
