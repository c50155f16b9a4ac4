"""`conformance known`: the known deviations of adapters."""

from __future__ import annotations

from typing import Annotated

import typer

from conformance import store
from conformance.cli import options
from conformance.drivers.implementation import adapt, describe
from conformance.errors import ConformanceError
from conformance.judge.known import append, read
from conformance.judge.triage import additions
from conformance.paths import find_paths


def known(
    adapter: options.AdapterNames = [],  # noqa: B006 (typer copies it)
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            help="Add an entry for each deviation in the adapter's results that none explains. "
            "Cause and reason are left for you to fill in: until then, a run refuses the list.",
        ),
    ] = False,
    implementation: options.ImplementationName = None,
    adapters_folder: options.AdaptersFolder = None,
    reports: options.ReportsFolder = None,
) -> None:
    """List what is known to deviate, and why; or add what a run has found.

    \b
    Examples:
      conformance known
      conformance known --adapter paddle
      conformance run --adapter paddle; conformance known --adapter paddle --update
      conformance known --adapter torch --implementation mine.yaml --update
    """
    paths = find_paths(adapters=adapters_folder, reports=reports)
    if update and not adapter:
        raise ConformanceError("--update needs --adapter: say whose list it is")
    chosen = options.adapters_named(adapter, paths.adapters)
    if implementation is not None:
        if len(adapter) != 1:
            raise ConformanceError("--implementation needs one --adapter to run in")
        chosen = (adapt(chosen[0], describe(implementation)),)
    for owner in chosen:
        file = owner.known
        entries = read(file, unfinished=True)
        if update:
            run = store.read(store.file_of(paths.reports, owner.name))
            added = additions(entries, run.results)
            append(file, added)
            noun = "entry" if len(added) == 1 else "entries"
            typer.echo(f"{file}: {len(added)} new {noun}, to be given causes and reasons")
            continue
        for entry in entries:
            program = owner.reproducer(entry.cause)
            shown = f" ({program})" if program else ""
            places = f"{', '.join(entry.cases)} [{', '.join(entry.variants)}]"
            typer.echo(f"{owner.name} {places} {entry.check}")
            for line in (
                f"observed: {entry.observed}",
                f"cause: {entry.cause or '(none yet)'}{shown}",
                f"reason: {entry.reason or '(none yet)'}",
                entry.url,
                entry.where,
            ):
                if line:
                    typer.echo(f"  {line}")
