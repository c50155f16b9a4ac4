"""`conformance merge`: the shards of a run, put together into its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from conformance.cli.options import (
    AdapterNames,
    AdaptersFolder,
    CasesFolder,
    ImplementationName,
    KnownFile,
    ReportsFolder,
)
from conformance.drivers.adapter import Adapter, find_adapter
from conformance.drivers.implementation import adapt, describe
from conformance.errors import AdapterError, ComparisonError, ConformanceError
from conformance.exits import Exit
from conformance.judge.known import read as read_known
from conformance.language.load import load_folder
from conformance.model.case import Case
from conformance.paths import Paths, find_paths
from conformance.results import read, remove, write
from conformance.run.merge import merge as merge_shards
from conformance.run.selection import unused
from conformance.run.shards import PATTERN
from conformance.run.summary import AdapterRun, Tally, print_parts


def merge(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="SHARD", help="Results of shards; all in the reports' folder where left out."
        ),
    ] = [],  # noqa: B006 (typer copies it)
    adapter: AdapterNames = [],  # noqa: B006
    implementation: ImplementationName = None,
    known: KnownFile = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the files of the shards where they are.")
    ] = False,
    cases: CasesFolder = None,
    adapters_folder: AdaptersFolder = None,
    reports: ReportsFolder = None,
) -> None:
    """Put the shards of runs together into reports/ADAPTER.jsonl, and judge the whole.

    What a run that was not divided would have printed is printed, and its exit code is given; also
    for known deviations that explain nothing, of which a shard cannot tell. --adapter, --implementation
    and --known are those of the run. Shards that do not belong together are refused, and nothing is
    written. The files of shards are removed once they are merged; without any, nothing is done.

    \b
    Examples:
      conformance merge
      conformance merge --adapter torch --keep
      conformance merge downloads/jax.shard-1-of-2.jsonl downloads/jax.shard-2-of-2.jsonl
    """
    paths = find_paths(cases, adapters_folder, reports)
    chosen = _chosen(adapter, implementation, known, paths)
    groups: dict[str, list[Path]] = {}
    for file in files or sorted(paths.reports.glob(f"*{PATTERN}.jsonl")):
        groups.setdefault(file.name.partition(".shard-")[0].removesuffix(".jsonl"), []).append(file)
    if chosen:
        groups = {name: group for name, group in groups.items() if name in chosen}
    if not groups:
        typer.echo("no shards, nothing to merge")
        return
    listed = load_folder(paths.cases)
    runs: list[AdapterRun] = []
    errors: list[str] = []
    for name, group in groups.items():
        try:
            runs.append(_merged(name, group, chosen.get(name), listed, paths))
        except ConformanceError as error:
            errors.append(str(error))
            continue
        for file in () if keep else group:
            remove(file)
    print_parts(runs, Console(highlight=False))
    for message in errors:
        typer.echo(f"error: {message}", err=True)
    if errors:
        raise typer.Exit(Exit.BAD_INPUT)
    wrong = any(run.stale or run.unexpected for run in runs)
    raise typer.Exit(Exit.UNEXPECTED if wrong else Exit.OK)


def _chosen(
    names: Sequence[str], implementation: str | None, known: Path | None, paths: Paths
) -> dict[str, Adapter]:
    """The adapters that were asked for, by name."""
    chosen = [find_adapter(name, paths.adapters) for name in names]
    if (implementation or known) and len(chosen) != 1:
        raise AdapterError("--implementation and --known need one --adapter that they are for")
    if implementation:
        chosen = [adapt(chosen[0], describe(implementation))]
    if known is not None:
        if not known.is_file():
            raise AdapterError("no such file of known deviations", where=known)
        chosen = [replace(chosen[0], deviations=known)]
    return {adapter.name: adapter for adapter in chosen}


def _merged(
    name: str, files: Sequence[Path], adapter: Adapter | None, cases: Sequence[Case], paths: Paths
) -> AdapterRun:
    """Merge the shards of one adapter's run, write its results, and triage them."""
    shards = [read(file) for file in files]
    header = shards[0].header
    if adapter is None and header.implementation:
        raise ComparisonError(
            f"{name}: shards of an implementation, {header.implementation}",
            hint="name it and its adapter, as in the run: --adapter NAME --implementation ...",
        )
    adapter = adapter or find_adapter(name, paths.adapters)
    if header.adapter != adapter.name:
        message = f"shards of {header.adapter}, in files that are named after {adapter.name}"
        raise ComparisonError(message, where=files[0])
    known = read_known(adapter.known)
    merged = merge_shards(shards, cases)
    file = paths.reports / f"{adapter.name}.jsonl"
    write(file, merged.header, merged.results, merged.footer)
    run = AdapterRun(adapter.name, merged.header.variants, file)
    for result in merged.results:
        run.add(Tally.of(result, known))
    every = merged.header.variants == tuple(variant.id for variant in adapter.variants)
    if every and not merged.header.selection:
        run.stale = unused(known, run.covered, cases, paths)
    return run
