"""`conformance frameworks`: a page for each framework: which mode, what it promises, what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conformance.cli.compare import ResultsFiles, read_all
from conformance.cli.options import (
    AdaptersFolder,
    ReportsFolder,
    in_report_order,
    seconds_of_variants,
    titles_of_variants,
)
from conformance.paths import find_paths


def frameworks(
    files: ResultsFiles = [],  # noqa: B006 (typer copies it)
    reports: ReportsFolder = None,
    adapters_folder: AdaptersFolder = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="Folder to write to [default: standard output]"),
    ] = None,
) -> None:
    """Say of each framework which mode to use, what each promises and what it costs, as Markdown.

    \b
    Examples:
      conformance frameworks reports/torch.jsonl
      conformance frameworks --output docs/frameworks
    """
    # Here, since the other commands need none of the report.
    from conformance.report.modes import render
    from conformance.report.page import file_name

    paths = find_paths(None, adapters_folder, reports)
    results = in_report_order(read_all(files, paths.reports), paths.adapters)
    titles = titles_of_variants(paths.adapters)
    pages = render(results, titles, seconds_of_variants(paths.adapters))
    for name, page in pages.items():
        if output is None:
            typer.echo(page, nl=False)
            continue
        # Results may be anybody's: a name that is none of a file becomes one.
        file = output / f"{name if name.isidentifier() else file_name(name)}.md"
        output.mkdir(parents=True, exist_ok=True)
        file.write_text(page, "utf-8")
        typer.echo(f"framework: {file}")
