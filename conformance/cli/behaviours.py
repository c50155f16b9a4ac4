"""`conformance behaviours`: what each implementation does, question by question."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from conformance.cli.compare import ResultsFiles, read_all
from conformance.cli.options import ReportsFolder, in_report_order
from conformance.errors import ResultsError
from conformance.paths import find_paths
from conformance.writing import write_text


def behaviours(
    files: ResultsFiles = [],  # noqa: B006 (typer copies it)
    reports: ReportsFolder = None,
    adapter: Annotated[
        list[str],
        typer.Option("--adapter", help="Of this adapter alone; repeatable."),
    ] = [],  # noqa: B006
    output: Annotated[
        Path | None,
        typer.Option("--output", help="Markdown file to write to [default: tables on the screen]"),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into",
            help="Markdown file whose table between <!-- behaviours --> and <!-- end --> is made anew: "
            "the first variant of each framework.",
        ),
    ] = None,
) -> None:
    """Say what each implementation does: does dropout keep its mask, how much memory is freed, …

    \b
    Examples:
      conformance behaviours --adapter torch
      conformance behaviours --output docs/behaviours.md
      conformance behaviours --adapter torch --adapter jax --into README.md
    """
    # Here, since the other commands need none of the report.
    from conformance.report.behaviours import first_variants, put_into, render, tables

    paths = find_paths(reports=reports)
    folder = paths.reports
    results = in_report_order(read_all(files, folder), paths.adapters)
    if adapter:
        available = [run.header.adapter for run in results]
        missing = [name for name in adapter if name not in available]
        if missing:
            hint = f"results are here of {', '.join(available)}; conformance run --adapter {missing[0]}"
            raise ResultsError(f"no results of {', '.join(missing)}", where=folder, hint=hint)
        results = [run for run in results if run.header.adapter in adapter]
    if into is not None:
        page = put_into(into.read_text("utf-8"), first_variants(results))
        write_text(into, page)
        typer.echo(f"behaviours: {into}")
    if output is not None:
        write_text(output, render(results))
        typer.echo(f"behaviours: {output}")
    if into is not None or output is not None:
        return
    console = Console()
    for table in tables(results, console.width):
        console.print(table)
