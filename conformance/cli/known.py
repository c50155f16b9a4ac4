"""`conformance known`: list the known deviations of adapters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from conformance import store
from conformance.cli import options
from conformance.drivers.adapter import Adapter
from conformance.drivers.implementation import adapt, describe
from conformance.errors import ConformanceError
from conformance.judge.known import Catalog, Entry, append, bound, in_release, read
from conformance.judge.triage import additions, triaged
from conformance.language.load import load_folder
from conformance.model.case import Case
from conformance.paths import find_paths
from conformance.words import counted


def known(
    adapter: options.AdapterNames = [],  # noqa: B006 (typer copies it)
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            help="Add a cause for each unexpected deviation in the adapter's results. Fill in its name "
            "and `says`: a run refuses causes without them.",
        ),
    ] = False,
    implementation: options.ImplementationName = None,
    cases_folder: options.CasesFolder = None,
    adapters_folder: options.AdaptersFolder = None,
    reports: options.ReportsFolder = None,
) -> None:
    """List the known deviations and their causes, or add those that a run has found.

    \b
    Examples:
      conformance known
      conformance known --adapter paddle
      conformance run --adapter paddle; conformance known --adapter paddle --update
      conformance known --adapter torch --implementation mine.yaml --update
    """
    paths = find_paths(adapters=adapters_folder, reports=reports)
    if update and not adapter:
        raise ConformanceError(
            "--update needs --adapter", hint="name the adapter whose file is updated"
        )
    chosen = options.adapters_named(adapter, paths.adapters)
    if implementation is not None:
        if len(adapter) != 1:
            raise ConformanceError("--implementation needs exactly one --adapter")
        chosen = (adapt(chosen[0], describe(implementation)),)
    cases = load_folder(find_paths(adapters=adapters_folder, cases=cases_folder).cases)
    catalog = Catalog(cases)
    for owner in chosen:
        entries = bound(read(owner.known, unfinished=True), catalog)
        if update:
            run = store.read(store.file_of(paths.reports, owner.name))
            release = run.header.versions.get(owner.model.packages[0], "")
            added = additions(in_release(entries, release), run.results, catalog)
            append(owner.known, added)
            words = "; fill in their names and `says`" if added else ""
            typer.echo(f"{owner.known}: {counted(len(added), 'new cause')}{words}")
            continue
        explained = _explained(store.file_of(paths.reports, owner.name), entries)
        for line in (*_listed(owner, entries, cases), explained):
            if line:
                typer.echo(line)


def _listed(owner: Adapter, entries: Sequence[Entry], cases: Sequence[Case]) -> Iterator[str]:
    """The causes of an adapter: those that everyday cases show first, then those of most cases."""
    by_cause: dict[str, list[Entry]] = {}
    for entry in entries:
        by_cause.setdefault(entry.cause, []).append(entry)
    shown = {
        cause: [case for case in cases if any(entry.names_case(case.id) for entry in of_cause)]
        for cause, of_cause in by_cause.items()
    }
    everyday = {
        cause: sum(case.use == "everyday" for case in found) for cause, found in shown.items()
    }
    for cause in sorted(by_cause, key=lambda c: (-everyday[c], -len(shown[c]))):
        first, number = by_cause[cause][0], counted(len(shown[cause]), "case")
        told = f", {everyday[cause]} everyday" if everyday[cause] else ""
        told += f", since {first.since}" if first.since else ""
        told += f", fixed in {first.fixed}" if first.fixed else ""
        yield f"{owner.name} {cause or '(no name yet)'}: {first.kind}, {number}{told}"
        yield f"  {first.reason or '(no description yet)'}"
        if first.instead:
            yield f"  Instead: {first.instead}"
        for entry in by_cause[cause]:
            yield f"  [{', '.join(entry.variants)}] {entry.check}: {' | '.join(entry.observed)}"
        program = owner.reproducer(cause)
        yield from (f"  {line}" for line in (program, first.url, first.where) if line)


def _explained(file: Path, entries: Sequence[Entry]) -> str:
    """How many deviations of the last run are explained by features; empty where there was none."""
    if not file.is_file():
        return ""
    by_features: dict[tuple[str, str, str], bool] = {}
    for result in store.read(file).results:
        for one in triaged(entries, result):
            if one.entry is not None and one.verdict.status.deviates:
                key = (result.case, result.variant, one.verdict.check)
                by_features[key] = by_features.get(key, True) and not one.entry.cases
    if not by_features:
        return ""
    number, total = sum(by_features.values()), len(by_features)
    return (
        f"{file}: of {counted(total, 'deviation')} (case, variant, check), {number} "
        f"({100 * number / total:.0f} %) are explained by features, the others by ids of cases"
    )
