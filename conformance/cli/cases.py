"""`conformance list`, `show`, `emit`, `schema`: commands that run nothing."""

import importlib.metadata
import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from conformance import store
from conformance.cli import options
from conformance.drivers.adapter import CPU, Adapter, find_adapter
from conformance.drivers.implementation import adapt, describe
from conformance.drivers.installed import version
from conformance.emit.programs import EmitFailure, texts
from conformance.errors import ConformanceError, nearest
from conformance.language import load
from conformance.language.features import CAPABILITIES, required_by
from conformance.observe.pool import completed
from conformance.paths import find_paths
from conformance.run.runner import checks_of, lacking
from conformance.words import counted


class SchemaName(StrEnum):
    """The kinds of files that have a schema."""

    CASES = "cases"
    RESULTS = "results"


def list_cases(
    name: Annotated[
        list[str],
        typer.Argument(
            help="Families, or adapters with --adapters [default: all].", show_default=False
        ),
    ] = [],  # noqa: B006 (typer copies it)
    ids: Annotated[bool, typer.Option("--ids", help="Print ids only, one per line.")] = False,
    adapters: Annotated[
        bool, typer.Option("--adapters", help="List adapters, with their versions and variants.")
    ] = False,
    cases: options.CasesFolder = None,
    adapters_folder: options.AdaptersFolder = None,
) -> None:
    """List the cases, or the adapters with what their variants offer, lack and refuse.

    \b
    Examples:
      conformance list
      conformance list randomness memory
      conformance list --ids | wc -l
      conformance list --adapters torch
    """
    if adapters:
        folder = find_paths(adapters=adapters_folder).adapters
        for owner in options.adapters_named(name, folder):
            _print_adapter(owner)
        return
    loaded, code = options.well_formed(find_paths(cases=cases).cases)
    families = dict.fromkeys(case.family for case in loaded)
    for family in set(name) - set(families):
        raise ConformanceError(f"there is no family {family!r}", hint=nearest(family, families))
    shown = [case for case in loaded if case.family in (name or families)]
    width = max((len(case.id) for case in shown), default=0)
    for case in shown:
        typer.echo(case.id if ids else f"{case.id:<{width}}  {case.title}")
    if not ids:
        typer.echo(f"\n{counted(len(shown), 'case')}")
    raise typer.Exit(code)


def show(case: options.CaseName, cases: options.CasesFolder = None) -> None:
    """Show a case: its text, the capabilities that it needs, and the checks that judge it.

    \b
    Example:
      conformance show basics/conv-relu-gradient
    """
    # Here, since the other commands need no highlighting.
    from conformance.report.sources import cut

    chosen, code = options.case_named(case, find_paths(cases=cases).cases)
    for label, words in {
        "case": chosen.id,
        "title": chosen.title,
        "source": chosen.source,
        "why": chosen.why,
        "where": chosen.where,
        "needs": ", ".join(sorted(required_by(chosen))) or "nothing",
        "checks": ", ".join(checks_of(chosen)),
    }.items():
        typer.echo(f"{label + ':':9}{words}")
    lines = tuple(Path(chosen.where.file).read_text("utf-8").splitlines())
    typer.echo(f"\n{cut(lines, chosen.where.line)}", nl=False)
    raise typer.Exit(code)


def emit(
    case: options.CaseName,
    adapter: options.AdapterName,
    variant: options.VariantName,
    device: options.DeviceName = CPU,
    implementation: options.ImplementationName = None,
    option: options.ImplementationOptions = [],  # noqa: B006 (typer copies it)
    always: options.ImplementationAlways = [],  # noqa: B006
    cases: options.CasesFolder = None,
    adapters_folder: options.AdaptersFolder = None,
) -> None:
    """Print the program of a case in a framework. The framework need not be installed.

    \b
    Example:
      conformance emit basics/conv-relu-gradient --adapter torch --variant non-reentrant
    """
    paths = find_paths(cases, adapters_folder)
    named, code = options.case_named(case, paths.cases)
    owner = find_adapter(adapter, paths.adapters).on(device)
    if implementation is not None:
        owner = adapt(owner, completed(owner, describe(implementation, option, always)))
    chosen = owner.variant(variant.removeprefix(f"{owner.name}/"))
    unsupported = lacking(named, chosen)
    if unsupported is not None:
        raise ConformanceError(unsupported.message)
    text = texts(owner, [(named, chosen)])[named.id, chosen.id]
    if isinstance(text, EmitFailure):
        words = "" if text.asked else "the adapter cannot emit this program: "
        raise ConformanceError(f"{words}{text.message}")
    typer.echo(text.text.rstrip("\n"))
    raise typer.Exit(code)


def schema(
    name: Annotated[
        SchemaName, typer.Argument(help="Of case files, or of files of results.")
    ] = SchemaName.CASES,
) -> None:
    """Print the JSON Schema of case files, or the SQL tables of a file of results.

    \b
    Examples:
      conformance schema > cases/case.schema.json
      conformance schema results
    """
    if name is SchemaName.RESULTS:
        typer.echo(store.TABLES.read_text("utf-8"), nl=False)
    else:
        typer.echo(json.dumps(load.schema(), indent=2, ensure_ascii=False))


def _print_adapter(adapter: Adapter) -> None:
    typer.echo(f"{adapter.name}: {adapter.model.title} ({_versions(adapter)})")
    for variant in adapter.variants:
        model = variant.model
        offered = sorted(set(CAPABILITIES) - set(model.lacks) - set(model.refuses))
        typer.echo(f"  {variant.id}: {model.title}\n    discipline: {model.discipline}")
        for word, reason in model.lacks.items():
            typer.echo(f"    lacks {word}: {reason}")
        for word, refusal in model.refuses.items():
            typer.echo(f"    refuses {word}: {refusal.raises}, {refusal.match!r}")
        typer.echo(f"    offers: {', '.join(offered)}")


def _versions(adapter: Adapter) -> str:
    """The versions of an adapter's packages here, found without importing them."""
    installed = []
    for package in adapter.model.packages:
        try:
            installed.append(f"{package} {version(package)}")
        except importlib.metadata.PackageNotFoundError:
            installed.append(f"{package}: not installed")
    return ", ".join(installed) or "no packages"
