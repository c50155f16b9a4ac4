"""`conformance run`: the cases on an adapter, as a pytest session with its own face."""

import argparse
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

An interrupted run with the same cases, versions and options is continued.

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

All other options are passed to pytest: -k, -x, -v, --lf, -n, --junitxml and so on.
"""
_NOTHING = """error: no case was selected
  hint: `conformance list` shows all cases, `conformance list --adapters` all variants"""
#: Options of earlier versions, and what to use instead.
REMOVED: Mapping[str, str] = {
    "--resume": "an interrupted run is continued without an option; --fresh starts from the beginning",
    "--repeat": "run several times with different --reports, then `conformance compare A B`",
    "--probe": "options with the framework's names are recognised; "
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
    for name in (word.partition("=")[0] for word in context.args):
        if name in REMOVED:
            raise ConformanceError(f"the option {name} was removed; instead: {REMOVED[name]}")
    parser = argparse.ArgumentParser("conformance run", add_help=False, allow_abbrev=False)
    for name, told in OPTIONS.items():
        parser.add_argument(name, **told)
    given, _ = parser.parse_known_args(context.args)
    paths = find_paths(given.cases, given.adapters_folder, given.reports)
    # A cache for each set of adapters: several sessions may run side by side.
    names = [Path(name).name for name in dict.fromkeys((*given.adapter, given.implementation))]
    cache = paths.reports / ".pytest_cache" / "-".join(filter(None, names)).replace(":", "-")
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
        typer.echo(_NOTHING, err=True)
    raise typer.Exit(_CODES.get(code, code) if ended is None else ended)
