"""`conformance report`: write the report on the results of one or several adapters."""

from pathlib import Path
from typing import Annotated

import typer

from conformance.cli import options
from conformance.cli.compare import ResultsFiles, read_all
from conformance.compare import compare as compare_results
from conformance.language.load import load_folder
from conformance.paths import find_paths


def report(
    files: ResultsFiles = [],  # noqa: B006 (typer copies it)
    cases: options.CasesFolder = None,
    adapters_folder: options.AdaptersFolder = None,
    reports: options.ReportsFolder = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="The folder to write to [default: that of the results]"),
    ] = None,
) -> None:
    """Write the report: index.html with details/, and report.md.

    \b
    Examples:
      conformance report
      conformance report reports/torch.db reports/jax.db --output /tmp/report
    """
    # Here, since the other commands need neither templates nor highlighting.
    from conformance.report import Report, write_report

    paths = find_paths(cases, adapters_folder, reports)
    known = load_folder(paths.cases)
    background = options.background(paths.adapters, known, paths.reports)
    found = options.in_report_order(read_all(files, paths.reports), paths.adapters)
    runs = [background.noted(run) for run in found]
    made = Report(runs, known, compare_results(runs, known), background)
    index = write_report(made, output or paths.reports, paths.reports)
    typer.echo(f"report: {index}")
