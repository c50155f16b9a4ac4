"""`conformance run`: the cases on an adapter, as a pytest session with its own face."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import typer

from conformance.cli.progress import Progress
from conformance.errors import ConformanceError
from conformance.exits import Exit
from conformance.paths import find_paths
from conformance.run.options import OPTIONS, listed

HELP = f"""Run the cases on an adapter, judge them, and store the results in reports/ADAPTER.db.

The run goes on where an earlier one of the same cases, versions and options was interrupted.

\b
Examples:
  conformance run --adapter torch
  conformance run --adapter torch --variant non-reentrant -k dropout
  conformance run --adapter torch --family randomness --case memory/softmax
  conformance run --adapter torch --smoke
  conformance run --adapter ./my_adapter -x
  conformance run --adapter jax -n 2 --junitxml reports/jax.xml
  conformance run --adapter jax --shard 2/4
  conformance run --adapter torch --implementation my_package.memory:checkpoint

\b
Options:
{listed()}

Everything else on the command line goes to pytest: -k, -x, -v, --lf, -n, --junitxml and the rest.
"""
#: Options of earlier versions, and what to use instead.
REMOVED: Mapping[str, str] = {
    "--resume": "a run goes on by itself where it was interrupted; --fresh starts from the beginning",
    "--repeat": "run several times with a --reports of its own each, then `conformance compare` them",
    "--probe": "options with the framework's names are recognised by themselves; "
    "docs/implementations.md says how to declare others",
    "--verbose": "use -v",
}
#: What pytest's own statuses are here.
_CODES: Mapping[int, Exit] = {
    pytest.ExitCode.INTERRUPTED: Exit.BAD_INPUT,  # what stops it before anything runs
    pytest.ExitCode.INTERNAL_ERROR: Exit.BROKEN_ADAPTER,
    pytest.ExitCode.USAGE_ERROR: Exit.BAD_INPUT,
    pytest.ExitCode.NO_TESTS_COLLECTED: Exit.BAD_INPUT,
}


def run(context: typer.Context) -> None:
    """Run a session with the options on the command line, and exit with its status."""
    given = dict.fromkeys(_values(context.args, "--adapter"))
    gone = next((word for word in context.args if word.partition("=")[0] in REMOVED), None)
    if gone is not None:
        name = gone.partition("=")[0]
        raise ConformanceError(f"the option {name} is gone", hint=REMOVED[name])
    if not given:
        hint = "--adapter torch; `conformance list --adapters` lists all"
        raise ConformanceError("no adapter is named", hint=hint)
    folders = (
        _folder(context.args, name) for name in ("--cases", "--adapters-folder", "--reports")
    )
    paths = find_paths(*folders)
    # A cache for each set of adapters: several sessions may run side by side.
    names = [Path(name).name for name in (*given, *_values(context.args, "--implementation"))]
    cache = paths.reports / ".pytest_cache" / "-".join(names).replace(":", "-")
    verbose = any(word.startswith("-v") for word in context.args)
    progress = Progress()
    code = pytest.main(
        [
            *("-p", "conformance.run.pytest_plugin", "-c", os.devnull),
            *("--rootdir", str(paths.cases.parent), "-o", f"cache_dir={cache}"),
            *("--noconftest", "--no-header", "-rN", "--disable-warnings"),
            f"--tb={'short' if verbose else 'no'}",
            *context.args,
        ],
        plugins=[progress],
    )
    ended = progress.suite.ended if progress.suite is not None else None
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and ended is None:
        typer.echo("error: no case was selected", err=True)
    raise typer.Exit(_CODES.get(code, code) if ended is None else ended)


def _values(arguments: list[str], name: str) -> list[str]:
    """The values of an option on a command line, written `--name value` or `--name=value`."""
    assert name in OPTIONS
    after = [b for a, b in itertools.pairwise(arguments) if a == name]
    return after + [word.partition("=")[2] for word in arguments if word.startswith(f"{name}=")]


def _folder(arguments: list[str], name: str) -> Path | None:
    values = _values(arguments, name)
    return Path(values[-1]) if values else None
