"""`conformance run`: the cases on an adapter, as a pytest session with its own face."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import typer

from conformance.cli.options import (
    AdapterNames,
    AdaptersFolder,
    CasePatterns,
    CasesFolder,
    FamilyNames,
    ImplementationAlways,
    ImplementationDiscipline,
    ImplementationName,
    ImplementationOptions,
    KnownFile,
    MemoryLimit,
    ReportsFolder,
    Resume,
    Rounds,
    ShardNumber,
    SmokeOnly,
    TimeLimit,
    VariantNames,
    Verbose,
    implementation_described,
)
from conformance.cli.progress import Progress
from conformance.cli.repeat import repeated
from conformance.drivers.implementation import Described
from conformance.errors import ConformanceError
from conformance.exits import Exit
from conformance.paths import Paths, find_paths
from conformance.writing import writing

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
    case: CasePatterns = [],  # noqa: B006
    family: FamilyNames = [],  # noqa: B006
    implementation: ImplementationName = None,
    option: ImplementationOptions = [],  # noqa: B006
    always: ImplementationAlways = [],  # noqa: B006
    discipline: ImplementationDiscipline = None,
    known: KnownFile = None,
    shard: ShardNumber = "",
    smoke: SmokeOnly = False,
    resume: Resume = False,
    repeat: Rounds = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    cases: CasesFolder = None,
    adapters_folder: AdaptersFolder = None,
    reports: ReportsFolder = None,
    verbose: Verbose = False,
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
      conformance run --adapter torch --implementation my_package.memory:checkpoint
    """
    paths = find_paths(cases, adapters_folder, reports)
    described = implementation_described(implementation, option, always, discipline)
    arguments = _pytest_arguments(adapter, described, paths, verbose)
    arguments += _repeated("--adapter", adapter)
    arguments += _repeated("--variant", variant)
    arguments += _repeated("--case", [*case, *(f"{name}/*" for name in family)])
    if implementation:
        arguments += ["--implementation", implementation]
        arguments += _repeated("--option", option)
        arguments += _repeated("--always", always)
        arguments += ["--discipline", discipline.value] if discipline else []
    arguments += ["--known", str(known)] if known else []
    arguments += ["--smoke"] if smoke else []
    arguments += ["--shard", shard] if shard else []
    arguments += ["--resume"] if resume else []
    arguments += ["--time-limit", str(time_limit)] if time_limit is not None else []
    arguments += ["--memory-limit", str(memory_limit)] if memory_limit is not None else []
    arguments += context.args
    if repeat is not None:
        if resume or shard:
            raise ConformanceError("--repeat goes with neither --resume nor --shard")
        raise typer.Exit(repeated(repeat, lambda more: _session([*arguments, *more])))
    with writing(paths.reports):
        paths.reports.mkdir(parents=True, exist_ok=True)
    raise typer.Exit(_session(arguments))


def _pytest_arguments(
    adapters: Sequence[str], described: Described | None, paths: Paths, verbose: bool
) -> list[str]:
    """The arguments of every session: the plugin, its folders, and no output of pytest's that the
    summary makes needless."""
    # A cache for each set of adapters: several sessions may run side by side.
    names = [Path(name).name for name in adapters] + ([described.name] if described else [])
    cache = paths.reports / ".pytest_cache" / "-".join(names)
    return [
        *("-p", "conformance", "-c", os.devnull, "--rootdir", str(paths.cases.parent)),
        *("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"),
        *("-o", f"cache_dir={cache}"),
        *("--noconftest", "--no-header", "-rN", "--disable-warnings"),
        f"--tb={'short' if verbose else 'no'}",
        *("--cases", str(paths.cases), "--adapters-folder", str(paths.adapters)),
        *("--reports", str(paths.reports)),
    ]


def _repeated(option: str, values: Sequence[str]) -> list[str]:
    """An option once for each of its values."""
    return [word for value in values for word in (option, value)]


def _session(arguments: list[str]) -> int:
    """Run a session, and give the exit status."""
    progress = Progress()
    code = pytest.main(arguments, plugins=[progress])
    ended = progress.suite.ended if progress.suite is not None else None
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and ended is None:
        typer.echo("error: no case was selected", err=True)
    return _CODES.get(code, code) if ended is None else ended
