"""`conformance list`, `show`, `emit`, `schema`, `adapters`: looking without running."""

from __future__ import annotations

import importlib.metadata
import json
from enum import StrEnum
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from conformance import results
from conformance.cli.alone import alone
from conformance.cli.options import (
    AdapterName,
    AdapterNames,
    AdaptersFolder,
    CaseName,
    CasesFolder,
    ImplementationAlways,
    ImplementationName,
    ImplementationOptions,
    VariantName,
    adapters_named,
    case_named,
    implementation_described,
)
from conformance.drivers.adapter import Adapter, find_adapter
from conformance.drivers.implementation import adapt
from conformance.emit.programs import EmitFailure, texts
from conformance.errors import ConformanceError
from conformance.language import load
from conformance.language.capabilities import CAPABILITIES, required_by
from conformance.observe.signature import completed
from conformance.paths import find_paths
from conformance.run.runner import checks_of, lacking


class SchemaName(StrEnum):
    """What has a schema."""

    CASES = "cases"
    RESULTS = "results"


def _console() -> Console:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    return console


def list_cases(
    family: Annotated[
        list[str], typer.Argument(help="Only these families.", show_default=False)
    ] = [],  # noqa: B006 (typer copies it)
    ids: Annotated[bool, typer.Option("--ids", help="Only the ids, one per line.")] = False,
    cases: CasesFolder = None,
) -> None:
    """List the cases.

    \b
    Examples:
      conformance list
      conformance list randomness memory
      conformance list --ids | wc -l
    """
    loaded = load.load_folder(find_paths(cases=cases).cases)
    families = {case.family for case in loaded}
    for name in family:
        if name not in families:
            words = ", ".join(sorted(families))
            raise ConformanceError(f"no family {name!r}", hint=f"families: {words}")
    shown = [case for case in loaded if not family or case.family in family]
    if ids:
        for case in shown:
            typer.echo(case.id)
        return
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("case", no_wrap=True)
    table.add_column("title")
    for case in shown:
        table.add_row(case.id.replace("[", r"\["), case.title.replace("[", r"\["))
    console = _console()
    console.print(table)
    console.print(f"{len(shown)} cases")


def show(case: CaseName, cases: CasesFolder = None) -> None:
    """Show a case: as a file of its own, the capabilities that it needs, the checks that judge it.

    \b
    Example:
      conformance show basics/conv-relu-gradient
    """
    chosen = case_named(case, find_paths(cases=cases).cases)
    console = _console()
    for label, words in (
        ("case", chosen.id),
        ("title", chosen.title),
        ("source", chosen.source),
        ("why", chosen.why),
        ("where", str(chosen.where)),
        ("needs", ", ".join(sorted(required_by(chosen))) or "nothing"),
        ("checks", ", ".join(checks_of(chosen))),
    ):
        console.print(f"{label + ':':9}{words}", markup=False)
    console.print()
    _print_code(console, alone(chosen), "yaml")


def emit(
    case: CaseName,
    adapter: AdapterName,
    variant: VariantName,
    implementation: ImplementationName = None,
    option: ImplementationOptions = [],  # noqa: B006 (typer copies it)
    always: ImplementationAlways = [],  # noqa: B006
    cases: CasesFolder = None,
    adapters_folder: AdaptersFolder = None,
) -> None:
    """Print the program that a case becomes in a framework. The framework is not needed.

    \b
    Example:
      conformance emit basics/conv-relu-gradient --adapter torch --variant non-reentrant
    """
    paths = find_paths(cases, adapters_folder)
    named = case_named(case, paths.cases)
    owner = find_adapter(adapter, paths.adapters)
    described = implementation_described(implementation, option, always, None)
    owner = owner if described is None else adapt(owner, completed(owner, described))
    chosen = owner.variant(variant.removeprefix(f"{owner.name}/"))
    unsupported = lacking(named, chosen)
    if unsupported is not None:
        raise ConformanceError(unsupported.message)
    text = texts(owner, [(named, chosen)])[named.id, chosen.id]
    if isinstance(text, EmitFailure) and text.asked:
        raise ConformanceError(text.message)
    if isinstance(text, EmitFailure):
        raise ConformanceError(f"the adapter cannot write this program: {text.message}")
    _print_code(_console(), text.text.rstrip("\n"), "python")


def schema(
    name: Annotated[SchemaName, typer.Argument(help="Of what.")] = SchemaName.CASES,
) -> None:
    """Print the JSON Schema of case files, or of the lines of results files.

    \b
    Examples:
      conformance schema > cases/case.schema.json
      conformance schema results
    """
    text = load.schema() if name is SchemaName.CASES else results.schema()
    typer.echo(json.dumps(text, indent=2, ensure_ascii=False))


def adapters(
    adapter: AdapterNames = [],  # noqa: B006 (typer copies it)
    adapters_folder: AdaptersFolder = None,
) -> None:
    """List adapters: variants, versions found here, and what each variant does not offer.

    \b
    Examples:
      conformance adapters
      conformance adapters --adapter torch
    """
    paths = find_paths(adapters=adapters_folder)
    console = _console()
    for listed in adapters_named(adapter, paths.adapters):
        console.print(f"{listed.name}: {listed.model.title} ({versions(listed)})", style="bold")
        for variant in listed.variants:
            model = variant.model
            console.print(f"  {variant.id}: {model.title}", markup=False)
            console.print(f"    discipline: {model.discipline}")
            for word, reason in model.lacks.items():
                console.print(f"    lacks {word}: {reason}", markup=False)
            for word, refusal in model.refuses.items():
                words = f"{refusal.raises}, {refusal.match!r}"
                console.print(f"    refuses {word}: {words}", markup=False)
            offered = sorted(set(CAPABILITIES) - set(model.lacks) - set(model.refuses))
            console.print(f"    offers: {', '.join(offered)}", markup=False)


def versions(adapter: Adapter) -> str:
    """The versions of an adapter's packages here, found without importing them."""
    installed = []
    for package in adapter.model.packages:
        try:
            installed.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            installed.append(f"{package}: not installed")
    return ", ".join(installed) or "no packages"


def _print_code(console: Console, text: str, language: str) -> None:
    if console.is_terminal:
        console.print(Syntax(text, language, background_color="default"))
    else:
        typer.echo(text)
