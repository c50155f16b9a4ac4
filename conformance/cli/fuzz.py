"""`conformance fuzz`: generated programs on an adapter, judged like cases."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from conformance.cli.options import (
    AdapterName,
    AdaptersFolder,
    CasesFolder,
    ImplementationAlways,
    ImplementationName,
    ImplementationOptions,
    ReportsFolder,
)
from conformance.drivers.implementation import describe
from conformance.exits import Exit
from conformance.fuzz.campaign import Campaign
from conformance.fuzz.found import write
from conformance.paths import Paths, find_paths
from conformance.run.interrupts import Interrupts, Stopped
from conformance.run.runner import Runner
from conformance.run.selection import select

#: How many causes of known deviations are named.
_CAUSES = 5


def fuzz(
    adapter: AdapterName,
    variant: Annotated[
        list[str], typer.Option(help="A variant; repeatable [default: the adapter's first]")
    ] = [],  # noqa: B006 (typer makes a new list)
    examples: Annotated[int, typer.Option(min=1, help="Programs for each variant.")] = 1000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same programs.")] = 0,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop after so long.", show_default=False)
    ] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for a program.")] = 20.0,
    implementation: ImplementationName = None,
    option: ImplementationOptions = [],  # noqa: B006
    always: ImplementationAlways = [],  # noqa: B006
    cases: CasesFolder = None,
    adapters_folder: AdaptersFolder = None,
    reports: ReportsFolder = None,
) -> None:
    """Judge generated programs, and keep the smallest one for each unexpected kind of verdict.

    Each program is a random case of the language, and goes the way that a case goes. What is
    found lies in the cases' folder, below `found`. Known deviations are counted.
    """
    paths = find_paths(cases, adapters_folder, reports)
    described = describe(implementation, option, always) if implementation else None
    limits = {"time_limit": time_limit}
    (chosen,) = select([adapter], variant, paths, described, limits=limits).chosen
    variants = chosen.variants if variant else chosen.variants[:1]
    console = Console(highlight=False, stderr=True)
    interrupts = Interrupts()
    interrupts.install()
    log = paths.reports / "logs" / f"{chosen.adapter.name}.fuzz.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="conformance-fuzz-") as folder:
        own = Paths(paths.cases, paths.adapters, Path(folder))
        runner = Runner(chosen.adapter, own, log, chosen.known)
        total = examples * len(variants)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        began = time.monotonic()
        task = bar.add_task("starting", total=total)

        def told() -> None:
            interrupts.check()
            judged = sum(tally.judged for tally in campaign.tallies)
            rate = judged / (time.monotonic() - began)
            words = f"{rate:.1f} programs/s, {len(campaign.found)} found"
            bar.update(task, completed=judged, description=words)

        campaign = Campaign(
            runner,
            variants,
            seed=seed,
            examples=examples,
            seconds=float("inf") if minutes is None else minutes * 60,
            told=told,
        )
        try:
            with bar:
                runner.start(variants)
                began = time.monotonic()
                campaign.run()
                campaign.shrink(lambda words: bar.update(task, description=words))
        except Stopped:
            pass
        with interrupts.held_off():
            runner.close()
            files = write(campaign, paths, chosen.adapter)
        interrupts.restore()
    _print(campaign, files, time.monotonic() - began)
    if interrupts.received is not None:
        raise typer.Exit(Exit(128 + interrupts.received))
    raise typer.Exit(Exit.UNEXPECTED if campaign.found else Exit.OK)


def _print(campaign: Campaign, files: dict[tuple[str, str, str], Path], seconds: float) -> None:
    console = Console(highlight=False)
    table = Table(
        "variant", "judged", "right", "known", "refused", "unexpected", "wasted", box=None
    )
    for tally in campaign.tallies:
        numbers = (tally.judged, tally.right, sum(tally.known.values()), tally.refused)
        more = (tally.unexpected, tally.wasted)
        table.add_row(tally.variant.id, *map(str, (*numbers, *more)))
    console.print(table)
    console.print(f"seed {campaign.seed}, {seconds:.0f} s")
    for tally in campaign.tallies:
        for cause, count in tally.known.most_common(_CAUSES):
            console.print(f"{tally.variant.id} known, {count} programs: {cause}")
    for found in sorted(campaign.found.values(), key=lambda f: -f.count):
        variant, check, _ = found.key
        console.print(f"\n{variant} {check}, {found.count} programs", style="bold")
        console.print(f"  {found.shown.verdict.status}: {found.shown.verdict.message}")
        if found.key in files:
            console.print(f"  {files[found.key]}", soft_wrap=True)
