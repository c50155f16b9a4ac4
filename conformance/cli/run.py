"""`conformance run`: the cases on an adapter, as a pytest session with its own face."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import pytest
import typer

from conformance.cli.options import (
    AdapterNames,
    AdaptersFolder,
    CasesFolder,
    ImplementationAlways,
    ImplementationDiscipline,
    ImplementationName,
    ImplementationOptions,
    KnownFile,
    ReportsFolder,
    VariantNames,
    implementation_described,
)
from conformance.cli.probe import found_by_trying, written
from conformance.cli.progress import Progress
from conformance.cli.repeat import repeated
from conformance.drivers.implementation import Described
from conformance.errors import ConformanceError
from conformance.exits import Exit
from conformance.paths import Paths, find_paths
from conformance.writing import write_text, writing

#: What pytest's own statuses are here.
_CODES: Mapping[int, Exit] = {
    pytest.ExitCode.INTERRUPTED: Exit.BAD_INPUT,  # what stops it before anything runs
    pytest.ExitCode.INTERNAL_ERROR: Exit.BROKEN_ADAPTER,
    pytest.ExitCode.USAGE_ERROR: Exit.BAD_INPUT,
    pytest.ExitCode.NO_TESTS_COLLECTED: Exit.BAD_INPUT,
}


def run(
    context: typer.Context,
    adapter: AdapterNames,
    variant: VariantNames = [],  # noqa: B006 (typer copies it)
    case: Annotated[
        list[str],
        typer.Option(
            "--case",
            metavar="PATTERN",
            help="Only the cases with such an id: memory/softmax, 'growth/*'; repeatable.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
    family: Annotated[
        list[str],
        typer.Option(
            "--family",
            metavar="NAME",
            help="Only the cases of this family: growth; repeatable, and beside those of --case.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
    implementation: ImplementationName = None,
    option: ImplementationOptions = [],  # noqa: B006
    always: ImplementationAlways = [],  # noqa: B006
    discipline: ImplementationDiscipline = None,
    known: KnownFile = None,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe",
            help="Find out first what the implementation offers and what it is built on, as "
            "`conformance probe` does, and run it so.",
        ),
    ] = False,
    shard: Annotated[
        str,
        typer.Option(
            "--shard",
            metavar="NUMBER/OF",
            help="Run one of several parts of about equal length, for as many machines: 2/4 is the "
            "second of four. `conformance merge` puts their results together.",
            show_default=False,
        ),
    ] = "",
    smoke: Annotated[
        bool,
        typer.Option(
            "--smoke",
            help="Only the adapter's smoke selection: a few cases that still show every known "
            "deviation, and catch every fault that the suite has been tried on.",
        ),
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on from where a run was interrupted or killed, with its options."
        ),
    ] = False,
    repeat: Annotated[
        int | None,
        typer.Option(
            "--repeat",
            metavar="ROUNDS",
            min=2,
            help="Run so many times, and say which verdicts and which observed values are not the same "
            "each time. Writes no results.",
            show_default=False,
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            "--time-limit",
            metavar="SECONDS",
            help="For one case on one variant, in the place of the adapter's limit.",
            show_default=False,
        ),
    ] = None,
    memory_limit: Annotated[
        float | None,
        typer.Option(
            "--memory-limit",
            metavar="GIB",
            help="That a worker process may allocate, in the place of the adapter's limit.",
            show_default=False,
        ),
    ] = None,
    cases: CasesFolder = None,
    adapters_folder: AdaptersFolder = None,
    reports: ReportsFolder = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Print every failure with what was expected.")
    ] = False,
) -> None:
    """Run the cases on an adapter, judge them, and write reports/ADAPTER.jsonl.

    Everything else on the command line goes to pytest: -k, -x, --lf, -n, --junitxml and the rest.

    \b
    Examples:
      conformance run --adapter torch
      conformance run --adapter torch --variant non-reentrant -k dropout
      conformance run --adapter torch --family randomness --case memory/softmax
      conformance run --adapter torch --smoke
      conformance run --adapter torch --smoke --repeat 20
      conformance run --adapter ./my_adapter -x
      conformance run --adapter jax -n 2 --junitxml reports/jax.xml
      conformance run --adapter jax --shard 2/4
      conformance run --adapter torch --resume
      conformance run --adapter torch --implementation my_package.memory:checkpoint --probe
    """
    paths = find_paths(cases, adapters_folder, reports)
    described = implementation_described(implementation, option, always, discipline)
    # One for each set of adapters: several may run side by side.
    names = [Path(name).name for name in adapter] + ([described.name] if described else [])
    cache = paths.reports / ".pytest_cache" / "-".join(names)
    arguments = [
        *("-p", "conformance", "-c", os.devnull, "--rootdir", str(paths.cases.parent)),
        *("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"),
        *("-o", f"cache_dir={cache}"),
        *(
            "--noconftest",
            "--no-header",
            "-rN",
            "--disable-warnings",
            f"--tb={'short' if verbose else 'no'}",
        ),
        *("--cases", str(paths.cases), "--adapters-folder", str(paths.adapters)),
        *("--reports", str(paths.reports)),
    ]
    arguments += [word for name in adapter for word in ("--adapter", name)]
    arguments += [word for name in variant for word in ("--variant", name)]
    named = [*case, *(f"{name}/*" for name in family)]
    arguments += [word for pattern in named for word in ("--case", pattern)]
    if probe:
        if described is None or len(adapter) != 1:
            raise ConformanceError("--probe needs one --adapter and an --implementation")
        file = _probed(adapter[0], described, paths)
        arguments += ["--implementation", str(file)]
        if known is None and described.known.is_file():
            known = described.known
    elif implementation:
        arguments += ["--implementation", implementation]
        arguments += [word for pair in option for word in ("--option", pair)]
        arguments += [word for pair in always for word in ("--always", pair)]
        arguments += ["--discipline", discipline.value] if discipline else []
    arguments += ["--known", str(known)] if known else []
    arguments += ["--smoke"] if smoke else []
    arguments += ["--shard", shard] if shard else []
    arguments += ["--resume"] if resume else []
    arguments += ["--time-limit", str(time_limit)] if time_limit is not None else []
    arguments += ["--memory-limit", str(memory_limit)] if memory_limit is not None else []
    if repeat is not None:
        if resume or shard:
            raise ConformanceError("--repeat goes with neither --resume nor --shard")
        raise typer.Exit(
            repeated(repeat, lambda more: _session([*arguments, *context.args, *more]))
        )
    with writing(paths.reports):
        paths.reports.mkdir(parents=True, exist_ok=True)
    raise typer.Exit(_session([*arguments, *context.args]))


def _probed(adapter: str, described: Described, paths: Paths) -> Path:
    """What is found of an implementation by trying, as a file beside the results to come."""
    probed = found_by_trying(adapter, described, paths)
    file = paths.reports / f"{described.name}.yaml"
    write_text(file, written(probed, folder=described.folder))
    typer.echo(f"implementation: {file}", err=True)
    return file


def _session(arguments: list[str]) -> int:
    """Run a session, and give the exit status."""
    progress = Progress()
    code = pytest.main(arguments, plugins=[progress])
    ended = progress.suite.ended if progress.suite is not None else None
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and ended is None:
        typer.echo("error: no case was selected", err=True)
    return _CODES.get(code, code) if ended is None else ended
