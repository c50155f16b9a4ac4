"""`conformance fuzz`: generated programs on an adapter, judged as cases are."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from conformance.cli import options
from conformance.drivers.adapter import CPU, Variant
from conformance.drivers.implementation import describe
from conformance.errors import ClusterError
from conformance.exits import Exit
from conformance.fuzz.campaign import Campaign, Found, Tally
from conformance.fuzz.cluster import ClusterCampaign
from conformance.fuzz.found import file_of, write
from conformance.paths import Paths, find_paths
from conformance.run.cluster import Cluster
from conformance.run.interrupts import Interrupts, Stopped
from conformance.run.runner import Runner
from conformance.run.selection import Chosen, select
from conformance.words import counted

_EXAMPLES = 1000
#: How many causes of known deviations are named.
_CAUSES = 5
_OUTCOMES = ("right", "known", "refused", "unexpected")


def fuzz(
    adapter: options.AdapterName,
    variant: Annotated[
        list[str],
        typer.Option(help="A variant; repeatable [default: the first one].", show_default=False),
    ] = [],  # noqa: B006 (typer copies it)
    examples: Annotated[
        int | None,
        typer.Option(
            min=1,
            show_default=False,
            help=f"Programs for each variant [default: {_EXAMPLES}, or what --minutes allows]",
        ),
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop after this time.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed generates the same programs.")] = 0,
    time_limit: Annotated[
        float, typer.Option(help="Time limit of one program, in seconds.")
    ] = 60.0,
    scheduler: Annotated[
        str | None,
        typer.Option(show_default=False, help="Run on the workers of a Dask scheduler."),
    ] = None,
    release: Annotated[
        str, typer.Option(help="With --scheduler: the release, where workers have several.")
    ] = "",
    device: options.DeviceName = CPU,
    implementation: options.ImplementationName = None,
    option: options.ImplementationOptions = [],  # noqa: B006
    always: options.ImplementationAlways = [],  # noqa: B006
    cases: options.CasesFolder = None,
    adapters_folder: options.AdaptersFolder = None,
    reports: options.ReportsFolder = None,
) -> None:
    """Generate random programs and judge them, like cases.

    Unexpected verdicts are grouped by variant, check and cause. The smallest program of each group
    is written to found/ in the folder of cases, as a case and as a program. Known deviations are
    counted.

    \b
    Examples:
      conformance fuzz --adapter torch
      conformance fuzz --adapter jax --variant jit --examples 200 --seed 7
      conformance fuzz --adapter tf --minutes 30
      conformance fuzz --adapter torch --implementation my_package.memory:checkpoint
    """
    paths = find_paths(cases, adapters_folder, reports)
    described = describe(implementation, option, always) if implementation else None
    limits = {"time_limit": time_limit}
    cluster = Cluster(scheduler) if scheduler else None
    on = partial(cluster.release, wanted=release) if cluster else None
    selection = select(
        [adapter], variant, paths, described, limits=limits, release=on, device=device
    )
    (chosen,) = selection.chosen
    if examples is None and minutes is None:
        examples = _EXAMPLES
    run = _Run(chosen, paths, chosen.variants if variant else chosen.variants[:1])
    if cluster:
        run.kind = partial(ClusterCampaign, cluster=cluster)
    try:
        received = run.judge(seed, examples, float("inf") if minutes is None else minutes * 60)
    except ClusterError:
        _print(run.campaign, paths.cases)
        raise
    _print(run.campaign, paths.cases)
    if received is not None:
        raise typer.Exit(Exit(128 + received))
    raise typer.Exit(Exit.UNEXPECTED if run.campaign.found else Exit.OK)


class _Run:
    """A campaign with its progress. What is found is written when it is found."""

    campaign: Campaign
    kind: Callable[..., Campaign] = Campaign

    def __init__(self, chosen: Chosen, paths: Paths, variants: Sequence[Variant]) -> None:
        self.chosen, self.paths, self.variants = chosen, paths, variants
        console = Console(stderr=True, highlight=False)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self.bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        self.interrupts = Interrupts()

    def judge(self, seed: int, examples: int | None, seconds: float) -> int | None:
        """Judge the programs; the signal that ended it early, if one did. Raises `BrokenAdapterError`
        and `WriteError`."""
        self.interrupts.install()
        total = examples and examples * len(self.variants)
        self.task = self.bar.add_task("starting", total=total)
        log = self.paths.reports / "logs" / f"{self.chosen.adapter.name}.fuzz.log"
        with tempfile.TemporaryDirectory(prefix="conformance-fuzz-") as folder:
            own = Paths(self.paths.cases, self.paths.adapters, Path(folder))
            runner = Runner(self.chosen.adapter, own, log, self.chosen.known)
            self.campaign = self.kind(
                runner,
                self.variants,
                seed=seed,
                examples=examples,
                seconds=seconds,
                told=self._told,
                new=self._new,
            )
            try:
                with self.bar:
                    self.campaign.start()
                    self.began = time.monotonic()
                    self.campaign.run()
                    self.campaign.shrink()
            except Stopped:
                pass
            finally:
                with self.interrupts.held_off():
                    runner.close()
                self.interrupts.restore()
        return self.interrupts.received

    def _told(self) -> None:
        self.interrupts.check()
        judged = sum(tally.judged for tally in self.campaign.tallies)
        rate = judged / (time.monotonic() - self.began)
        words = f"{rate:.1f} programs/s, {len(self.campaign.found)} found"
        self.bar.update(self.task, completed=judged, description=words)

    def _new(self, found: Found) -> None:
        with self.interrupts.held_off():
            write(found, self.paths.cases, self.chosen.adapter)


def _print(campaign: Campaign, cases: Path) -> None:
    """A table of outcomes by variant, the most frequent known deviations, then what was unexpected."""
    console = Console(highlight=False, soft_wrap=True)
    table = Table("variant", "programs", *_OUTCOMES, box=box.SIMPLE_HEAD)
    for tally in campaign.tallies:
        numbers = (tally.judged, *(tally.outcomes[word] for word in _OUTCOMES))
        table.add_row(tally.variant.id, *map(str, numbers))
    console.print(table)
    for tally in campaign.tallies:
        console.print(_told(tally), markup=False)
    for found in sorted(campaign.found.values(), key=lambda found: -found.count):
        variant, check, _ = found.key
        heading = f"\n{variant} {check}: {counted(found.count, 'program')}"
        console.print(heading, style="bold", markup=False)
        console.print(f"  {found.message}", markup=False)
        console.print(f"  {file_of(found, cases)}", markup=False)


def _told(tally: Tally) -> str:
    """Known deviations and waste, in a line."""
    common = [f"{cause} ({count})" for cause, count in tally.causes.most_common(_CAUSES)]
    more = len(tally.causes) - len(common)
    common += [f"{more} more"] if more > 0 else []
    made = tally.judged + tally.wasted
    waste = f"{tally.variant.id}: {tally.wasted} of {made:,} generated programs were left out"
    return waste + (f"; known causes: {', '.join(common)}" if common else "")
