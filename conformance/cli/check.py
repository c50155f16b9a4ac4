"""`conformance check`: compare a program of your own with and without recomputation."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from conformance.cli import options
from conformance.exits import Exit


class Format(StrEnum):
    """The format of the output."""

    TEXT = "text"
    JSON = "json"


def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)],
    adapter: Annotated[
        str | None,
        typer.Option(
            "--adapter", help="The framework's adapter [default: found from the file's imports]"
        ),
    ] = None,
    steps: Annotated[int, typer.Option(help="Training steps to compare.")] = 3,
    bisect: Annotated[
        bool, typer.Option("--bisect", help="Find the smallest set of regions that deviates.")
    ] = False,
    time_limit: Annotated[float, typer.Option(help="Time limit in seconds.")] = 600.0,
    form: Annotated[
        Format, typer.Option("--format", help="The format of the output.")
    ] = Format.TEXT,
    page: Annotated[Path | None, typer.Option("--page", help="Also write an HTML page.")] = None,
    adapters_folder: options.AdaptersFolder = None,
) -> None:
    """Check your own training program: does recomputation change it, and how much memory does it save?

    FILE defines `model(recompute)`, `batch(step)` and `loss(model, batch)`, and may define
    `optimizer(model)` and `tolerance = (number, "why")`. It may define `plain`, `recomputed` and
    `run(forward)` instead: what `run` returns for the two is compared.

    \b
    Examples:
      conformance check my_model.py
      conformance check my_model.py --bisect
      conformance check my_model.py --format json
    """
    from conformance.checking import check as check_file
    from conformance.checking.show import as_json, show, write_page

    result = check_file(
        file,
        adapter=adapter,
        steps=steps,
        bisect=bisect,
        time_limit=time_limit,
        adapters_folder=adapters_folder,
    )
    if form is Format.JSON:
        typer.echo(as_json(result))
    else:
        show(result)
    if page is not None:
        write_page(result, page)
        typer.echo(f"page: {page}", err=form is Format.JSON)
    raise typer.Exit(Exit.OK if result.ok else Exit.UNEXPECTED)
