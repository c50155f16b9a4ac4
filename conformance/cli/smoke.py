"""`conformance smoke`: the few cases that `conformance run --smoke` runs, and how they are chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

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
from conformance.judge import known
from conformance.language.load import load_folder
from conformance.model.case import Case
from conformance.paths import find_paths
from conformance.run import smoke as selection
from conformance.run import smoke_cover
from conformance.run.shards import Pair
from conformance.words import counted


def smoke(
    adapter: AdapterNames = [],  # noqa: B006 (typer copies it)
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            help="Choose anew, from the results of a whole run of the adapter, and write smoke.yaml.",
        ),
    ] = False,
    cases: CasesFolder = None,
    adapters_folder: AdaptersFolder = None,
    reports: ReportsFolder = None,
) -> None:
    """List the smoke selection of adapters, and what each of its cases shows; or choose it anew.

    \b
    Examples:
      conformance smoke --adapter torch
      conformance run --adapter torch; conformance smoke --adapter torch --update
    """
    paths = find_paths(cases, adapters_folder, reports)
    if update and not adapter:
        raise ConformanceError("--update needs --adapter: say whose selection it is")
    loaded = load_folder(paths.cases)
    for owner in adapters_named(adapter, paths.adapters):
        if update:
            _update(owner, loaded, paths.reports)
        else:
            _print(owner, loaded)


def _update(adapter: Adapter, cases: tuple[Case, ...], reports: Path) -> None:
    run = results.read(reports / f"{adapter.name}.jsonl")
    entries = known.read(adapter.known)
    caught = smoke_cover.read_caught(adapter)
    seconds = smoke_cover.seconds_of(adapter, run)
    pairs = smoke_cover.choose(adapter, run, cases, entries, caught, seconds)
    file = selection.write(adapter, pairs)
    typer.echo(f"{file}: {_size(pairs, seconds)}")


def _print(adapter: Adapter, cases: tuple[Case, ...]) -> None:
    chosen = selection.find(adapter)
    chosen.validate(adapter, cases)
    entries = known.read(adapter.known)
    lines = {entry.reason: entry.where.rpartition(":")[2] for entry in reversed(entries)}
    caught = smoke_cover.read_caught(adapter)
    seconds = smoke_cover.seconds_of(adapter)
    by_id = {case.id: case for case in cases}
    pairs = chosen.pairs(adapter)
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("variant", "case"):
        table.add_column(name, no_wrap=True)
    table.add_column("seconds", justify="right")
    table.add_column(f"lines of {adapter.known.name}")
    table.add_column("faults caught: by no other, and how many more")
    promised = {
        (case, variant): smoke_cover.promised_by(
            by_id[case], adapter.variant(variant.removeprefix(f"{adapter.name}/")), entries, caught
        )
        for case, variant in pairs
    }
    shown = smoke_cover.with_unsupported(promised, caught)
    unique = smoke_cover.shown_alone(shown)
    for (case, variant), requirements in shown.items():
        reasons = sorted(int(lines[r.name]) for r in requirements if r.kind == "reason")
        faults = sorted(t.name for t in unique[case, variant] if t.kind == "fault")
        more = sum(r.kind == "fault" for r in requirements) - len(faults)
        faults += [f"+{more}"] if more else []
        recorded = seconds.get((case, variant))
        table.add_row(
            variant,
            Text(case),
            "" if recorded is None else f"{recorded:.2f}",
            ", ".join(map(str, reasons)),
            ", ".join(faults),
        )
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    console.print(table)
    console.print(f"{adapter.name}: {_size(pairs, seconds)}")


def _size(pairs: tuple[Pair, ...], seconds: dict[Pair, float]) -> str:
    number = counted(len(pairs), "program")
    cases = counted(len({case for case, _ in pairs}), "case")
    total = sum(seconds.get(pair, 0.0) for pair in pairs)
    return f"{number} of {cases}; {total:.0f} of {sum(seconds.values()):.0f} s on record"
