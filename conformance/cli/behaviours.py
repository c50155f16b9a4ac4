"""`conformance behaviours`: what each implementation does, behaviour by behaviour."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conformance.cli.compare import ResultsFiles, read_all
from conformance.cli.options import ReportsFolder
from conformance.paths import find_places


def behaviours(
    files: ResultsFiles = [],  # noqa: B006 (typer copies it)
    reports: ReportsFolder = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="File to write to [default: standard output]")
    ] = None,
) -> None:
    """Say what each implementation does, behaviour by behaviour, as Markdown.

    \b
    Examples:
      conformance behaviours
      conformance behaviours --output docs/behaviours.md
    """
    # Here, since the other commands need none of the report.
    from conformance.report.behaviours import render

    page = render(read_all(files, find_places(reports=reports).reports))
    if output is None:
        typer.echo(page, nl=False)
    else:
        output.write_text(page, "utf-8")
        typer.echo(f"behaviours: {output}")
