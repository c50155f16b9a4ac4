"""Options that several commands share, and how the shell completes them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from conformance.drivers.adapter import (
    REFERENCE,
    Adapter,
    AdapterModel,
    all_adapters,
    find_adapter,
)
from conformance.drivers.implementation import Described, describe
from conformance.errors import ConformanceError, nearest
from conformance.language.load import load_folder
from conformance.model.case import Case
from conformance.oracle.shapes import check_shapes, is_own
from conformance.paths import find_paths
from conformance.results import Results


def complete_adapter(incomplete: str) -> list[str]:
    """Names of adapters."""
    try:
        adapters = all_adapters(find_paths().adapters)
    except ConformanceError:
        return []
    return [adapter.name for adapter in adapters if adapter.name.startswith(incomplete)]


def complete_variant(incomplete: str) -> list[str]:
    """Ids of variants, and their bare names."""
    try:
        adapters = all_adapters(find_paths().adapters)
    except ConformanceError:
        return []
    names = [n for a in adapters for v in a.variants for n in (v.name, v.id)]
    return sorted({name for name in names if name.startswith(incomplete)})


def complete_case(incomplete: str) -> list[str]:
    """Ids of cases."""
    try:
        return [
            case.id for case in load_folder(find_paths().cases) if case.id.startswith(incomplete)
        ]
    except ConformanceError:
        return []


AdapterName = Annotated[
    str,
    typer.Option(
        "--adapter",
        help="An adapter's name, or the path of its folder.",
        autocompletion=complete_adapter,
        show_default=False,
    ),
]
AdapterNames = Annotated[
    list[str],
    typer.Option(
        "--adapter",
        help="An adapter's name, or the path of its folder; repeatable.",
        autocompletion=complete_adapter,
        show_default=False,
    ),
]
VariantName = Annotated[
    str,
    typer.Option(
        "--variant", help="A variant's name.", autocompletion=complete_variant, show_default=False
    ),
]
VariantNames = Annotated[
    list[str],
    typer.Option(
        "--variant",
        help="Only this variant (reentrant, torch/reentrant); repeatable.",
        autocompletion=complete_variant,
        show_default=False,
    ),
]


class DisciplineName(StrEnum):
    """How much runs again."""

    WHOLE = "whole"
    EARLY_STOP = "early-stop"
    MINIMAL = "minimal"


ImplementationName = Annotated[
    str | None,
    typer.Option(
        "--implementation",
        metavar="MODULE:FUNCTION|FILE",
        help="Put this function in the place of the framework's recompute; or a YAML file about one.",
        show_default=False,
    ),
]
ImplementationOptions = Annotated[
    list[str],
    typer.Option(
        "--option",
        metavar="OPTION=KEYWORD",
        help="The function's keyword for an option of cases: "
        "preserve_rng=preserve_rng_state; repeatable.",
        show_default=False,
    ),
]
ImplementationAlways = Annotated[
    list[str],
    typer.Option(
        "--always",
        metavar="KEYWORD=VALUE",
        help="A keyword that the function is always given: use_reentrant=False; repeatable.",
        show_default=False,
    ),
]
ImplementationDiscipline = Annotated[
    DisciplineName | None,
    typer.Option("--discipline", help="How much the function runs again.", show_default=False),
]
KnownFile = Annotated[
    Path | None,
    typer.Option(
        "--known",
        help="A list of known deviations, in the place of the adapter's; of an implementation also the "
        "variant that it is built on (torch/non-reentrant), whose deviations it shares.",
        show_default=False,
    ),
]
CasePatterns = Annotated[
    list[str],
    typer.Option(
        "--case",
        metavar="PATTERN",
        help="Only the cases with such an id: memory/softmax, 'growth/*'; repeatable.",
        show_default=False,
    ),
]
FamilyNames = Annotated[
    list[str],
    typer.Option(
        "--family",
        metavar="NAME",
        help="Only the cases of this family: growth; repeatable, and beside those of --case.",
        show_default=False,
    ),
]
ProbeFirst = Annotated[
    bool,
    typer.Option(
        "--probe",
        help="Find out first what the implementation offers and what it is built on, as "
        "`conformance probe` does, and run it so.",
    ),
]
ShardNumber = Annotated[
    str,
    typer.Option(
        "--shard",
        metavar="NUMBER/OF",
        help="Run one of several parts of about equal length, for as many machines: 2/4 is the "
        "second of four. `conformance merge` puts their results together.",
        show_default=False,
    ),
]
SmokeOnly = Annotated[
    bool,
    typer.Option(
        "--smoke",
        help="Only the everyday cases, on every variant: those with `smoke: true`.",
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Go on from where a run was interrupted or killed, with its options."
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option(
        "--repeat",
        metavar="ROUNDS",
        min=2,
        help="Run so many times, and say which verdicts and which observed values are not the same "
        "each time. Writes no results.",
        show_default=False,
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        help="For one case on one variant, in the place of the adapter's limit.",
        show_default=False,
    ),
]
MemoryLimit = Annotated[
    float | None,
    typer.Option(
        "--memory-limit",
        metavar="GIB",
        help="That a worker process may allocate, in the place of the adapter's limit.",
        show_default=False,
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Print every failure with what was expected.")
]
CaseName = Annotated[
    str,
    typer.Argument(
        metavar="CASE", help="A case's id.", autocompletion=complete_case, show_default=False
    ),
]
CasesFolder = Annotated[
    Path | None, typer.Option("--cases", help="Folder of case files.", show_default=False)
]
AdaptersFolder = Annotated[
    Path | None,
    typer.Option("--adapters-folder", help="Folder of adapters.", show_default=False),
]
ReportsFolder = Annotated[
    Path | None,
    typer.Option("--reports", help="Where results lie [default: reports/]", show_default=False),
]


def case_named(name: str, folder: Path) -> Case:
    """The case of that id. Raises `ConformanceError` with the nearest one."""
    loaded = load_folder(folder)
    for case in loaded:
        if case.id == name:
            if not is_own(folder):
                check_shapes([case])
            return case
    raise ConformanceError(f"no case {name!r}", hint=nearest(name, [case.id for case in loaded]))


def adapters_named(names: list[str], folder: Path) -> tuple[Adapter, ...]:
    """The adapters of those names, or all where none is named."""
    if names:
        return tuple(find_adapter(name, folder) for name in names)
    return all_adapters(folder)


def in_report_order(runs: Iterable[Results], folder: Path) -> list[Results]:
    """Results in the order of reports: by the `place` of their adapters, with the reference last.
    An adapter that is not in the folder stands where one that names no place does.
    """
    places = {adapter.name: adapter.model.place for adapter in all_adapters(folder)}
    default = AdapterModel.model_fields["place"].default

    def rank(run: Results) -> tuple[bool, int, str]:
        name = run.header.adapter
        return name == REFERENCE, places.get(name, default), name

    return sorted(runs, key=rank)


def titles_of_variants(folder: Path) -> dict[str, str]:
    """What the variants of all adapters in a folder are, by their full ids."""
    return {v.id: v.model.title for adapter in all_adapters(folder) for v in adapter.variants}


def seconds_of_variants(folder: Path) -> dict[str, tuple[str, float]]:
    """What steps of variants take, as measured: by full id the version and the ratio to plain."""
    from conformance.report.costs import read_seconds

    seconds: dict[str, tuple[str, float]] = {}
    for adapter in all_adapters(folder):
        seconds |= read_seconds(adapter.name, adapter.folder)
    return seconds


def implementation_described(
    text: str | None,
    options: list[str],
    always: list[str],
    discipline: DisciplineName | None,
) -> Described | None:
    """What the options say of somebody's own recompute; `None` where none is named.

    Raises `ConformanceError` for options about an implementation that is not there.
    """
    if text:
        return describe(text, options, always, discipline.value if discipline else None)
    if options or always or discipline:
        raise ConformanceError(
            "--option, --always and --discipline speak of an implementation",
            hint="name it with --implementation package.module:function",
        )
    return None
