"""`conformance diff`: what changed between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conformance.cli.compare import read_all
from conformance.errors import ResultsError
from conformance.exits import Exit
from conformance.results import Results


def diff(
    old: Annotated[Path, typer.Argument(help="Results before: a file, or a folder of them.")],
    new: Annotated[Path, typer.Argument(help="Results now: a file, or a folder of them.")],
) -> None:
    """Say what changed between two runs: what is worse, what is repaired, counts and bytes, versions.

    Exit status 1 means that something is worse.

    \b
    Examples:
      conformance diff reports-2.12/torch.jsonl reports-2.13/torch.jsonl
      conformance diff last-week/ reports/
    """
    # Here, since the other commands need none of the report.
    from conformance.report.changes import changes, lines

    changed = changes(_read(old), _read(new))
    for line in lines(changed):
        typer.echo(line)
    raise typer.Exit(Exit.UNEXPECTED if changed.worse else Exit.OK)


def _read(where: Path) -> list[Results]:
    if not where.exists():
        raise ResultsError("there is no such file or folder", where=where)
    return read_all([], where) if where.is_dir() else read_all([where], where.parent)
