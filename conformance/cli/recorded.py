"""`conformance recorded`: how long cases took, for shards and for what is left of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from conformance import results
from conformance.cli.options import (
    AdapterNames,
    AdaptersFolder,
    CasesFolder,
    ReportsFolder,
    adapters_named,
)
from conformance.drivers.adapter import Adapter
from conformance.errors import ConformanceError
from conformance.language.load import load_folder
from conformance.paths import find_paths
from conformance.results import recorded as seconds


def recorded(
    adapter: AdapterNames = [],  # noqa: B006 (typer copies it)
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            help="Write the seconds of the adapter's last run into its folder. What that run left out "
            "keeps those of before.",
        ),
    ] = False,
    cases: CasesFolder = None,
    adapters_folder: AdaptersFolder = None,
    reports: ReportsFolder = None,
) -> None:
    """List how long the cases took when that was recorded; or record it anew from a run.

    Recorded seconds lie with the adapter (recorded.json). `conformance run --shard` makes parts of about
    equal length with them, and a run says how long it still takes.

    \b
    Examples:
      conformance recorded
      conformance run --adapter torch; conformance recorded --adapter torch --update
    """
    paths = find_paths(cases, adapters_folder, reports)
    if update and not adapter:
        raise ConformanceError("--update needs --adapter: say whose seconds")
    chosen = adapters_named(adapter, paths.adapters)
    if update:
        ids = [case.id for case in load_folder(paths.cases)]
        for owner in chosen:
            _update(owner, paths.reports, ids)
        return
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("variant", no_wrap=True)
    for name in ("cases", "seconds", "longest"):
        table.add_column(name, justify="right")
    for owner in chosen:
        for name, times in seconds.read(owner.folder).variants.items():
            longest = max(times.values(), default=0.0)
            row = (str(len(times)), f"{sum(times.values()):.0f}", f"{longest:.2g}")
            table.add_row(f"{owner.name}/{name}", *row)
    Console(highlight=False).print(table if table.rows else "nothing is recorded")


def _update(adapter: Adapter, reports: Path, cases: list[str]) -> None:
    run = results.read(reports / f"{adapter.name}.jsonl")
    new = seconds.from_results(run.results, adapter.model.time_limit)
    old = seconds.read(adapter.folder)
    both = seconds.updated(old, new, cases, list(adapter.model.variants))
    file = seconds.write(adapter.folder, both)
    typer.echo(f"{file}: {sum(map(len, new.variants.values()))} recorded")
