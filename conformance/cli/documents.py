"""`conformance documents`: what documents of frameworks say, and what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conformance.cli.compare import ResultsFiles, read_all
from conformance.cli.options import AdaptersFolder, CasesFolder, ReportsFolder
from conformance.drivers.adapter import all_adapters
from conformance.language.load import load_folder
from conformance.paths import find_paths
from conformance.report import claims as documented
from conformance.writing import write_text


def documents(
    files: ResultsFiles = [],  # noqa: B006 (typer copies it)
    reports: ReportsFolder = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="File to write to [default: standard output]")
    ] = None,
    claims: Annotated[
        Path | None,
        typer.Option("--claims", help="The list of documents [default: docs/documents.yaml]"),
    ] = None,
    cases: CasesFolder = None,
    adapters_folder: AdaptersFolder = None,
) -> None:
    """Say of each claim in the frameworks' documents what the runs have shown, as Markdown.

    Where two files have a result of one case and variant, the one that is named later counts.

    \b
    Examples:
      conformance documents
      conformance documents --output docs/documents.md
    """
    # Here, since the other commands need none of the report.
    from conformance.report.documents import render

    paths = find_paths(cases, adapters_folder, reports)
    listed = documented.read(claims or paths.cases.parent / documented.FILE)
    known = load_folder(paths.cases)
    adapters = all_adapters(paths.adapters)
    documented.validate(listed, known, [v.id for a in adapters for v in a.variants])
    page = render(listed, known, read_all(files, paths.reports))
    if output is None:
        typer.echo(page, nl=False)
    else:
        write_text(output, page)
        typer.echo(f"documents: {output}")
