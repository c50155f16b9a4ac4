"""`conformance history`: how cases came out run after run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conformance.cli.compare import read_all
from conformance.errors import ResultsError


def history(
    folder: Annotated[Path, typer.Argument(help="A folder with a folder of results for each run.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", help="HTML page to write to [default: a summary on the screen]"),
    ] = None,
) -> None:
    """Say for each framework what appeared and what went, and with which version.

    Results that cannot be read, such as those of an older format, are left out and named.

    \b
    Examples:
      conformance history runs/
      conformance history runs/ --output history.html
    """
    # Here, since the other commands need none of the report.
    from conformance.report.history import RunSnapshot, histories, lines, render, run_snapshot

    if not folder.is_dir():
        raise ResultsError("there is no such folder", where=folder)
    shots: list[RunSnapshot] = []
    for run in sorted(path for path in folder.iterdir() if path.is_dir()):
        for file in sorted(run.glob("*.jsonl")):
            try:
                (results,) = read_all([file], run)  # one at a time: a whole run is large
            except ResultsError as error:
                typer.echo(f"left out: {error}", err=True)
                continue
            shots.append(run_snapshot(run.name, results))
    if not shots:
        hint = "runs/2026-11-20/torch.jsonl, runs/2026-11-27/torch.jsonl, …"
        raise ResultsError("no folder in it holds results", where=folder, hint=hint)
    by_adapter = histories(shots)
    if output is None:
        for line in lines(by_adapter):
            typer.echo(line)
        return
    output.write_text(render(by_adapter), "utf-8")
    typer.echo(f"history: {output}")
