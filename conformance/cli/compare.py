"""`conformance compare`: results beside each other, of variants and of runs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from conformance import store
from conformance.cli.options import CasesFolder, ReportsFolder
from conformance.compare import (
    Measured,
    SideBySide,
    belong_together,
    of_variant,
    run_by_run,
    side_by_side,
    written,
)
from conformance.compare import compare as compare_results
from conformance.errors import ComparisonError, ResultsError
from conformance.exits import Exit
from conformance.language.load import load_folder
from conformance.model.result import Results
from conformance.paths import Paths, find_paths

#: Columns of a table that is not written to a terminal.
_WIDTH = 200


class Format(StrEnum):
    """How a comparison is written."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


ResultsFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="RESULTS", help="Results files; all in the reports' folder where left out."
    ),
]


def compare(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="[VARIANT VARIANT | OLD NEW...]",
            help="Two variants, such as torch/reentrant; or two or more runs, each a folder of "
            "results or a file. Where left out: all variants in the reports' folder.",
        ),
    ] = [],  # noqa: B006 (typer copies it)
    cases: CasesFolder = None,
    reports: ReportsFolder = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also list what has been judged per variant already.")
    ] = False,
    style: Annotated[Format, typer.Option("--format", help="How to write it.")] = Format.TEXT,
) -> None:
    """Compare results: all variants with each other, two variants, or two and more runs.

    All variants: who disagrees with whom on values, executions and memory. Exit code 1 means that
    variants disagree although each passed its own checks.

    Two variants: what differs between them, case by case. The exit code is 0.

    Runs of the same adapters, the oldest first: what is worse, what is better, which numbers and
    versions changed. Exit code 1 means that something is worse than in the run before.

    \b
    Examples:
      conformance compare
      conformance compare torch/reentrant torch/non-reentrant
      conformance compare torch/non-reentrant jax/jit --format markdown > porting.md
      conformance compare last-week/ reports/
      conformance compare runs/* --format json
    """
    paths = find_paths(cases, reports=reports)
    if len(what) == 2 and all(map(_is_variant, what)):
        raise typer.Exit(_variants(what[0], what[1], paths, style))
    if len(what) > 1:
        raise typer.Exit(_runs(what, style))
    results = read_run(what[0]) if what else read_all([], paths.reports)
    comparison = compare_results(results, load_folder(paths.cases))
    _say_lacking(results)
    if style is Format.JSON:
        typer.echo(msgspec.json.encode(comparison))
    else:
        in_markdown = style is Format.MARKDOWN
        _print(written.agreement(comparison, everything=everything, in_markdown=in_markdown))
    raise typer.Exit(Exit.OK if comparison.ok else Exit.UNEXPECTED)


def _variants(left: str, right: str, paths: Paths, style: Format) -> Exit:
    """Two variants, with the programs of what differs."""
    # Here, since a comparison of runs needs none of the report.
    from conformance.report.questions import QUESTIONS, answers

    adapters = [word.partition("/")[0] for word in (left, right)]
    results = store.read_folder(paths.reports, adapters) or read_all([], paths.reports)
    of_left, of_right = of_variant(left, results), of_variant(right, results)
    used = [run for run in results if {left, right} & set(run.header.variants)]
    belong_together([used])
    _say_lacking(used)
    found = side_by_side(of_left, of_right, load_folder(paths.cases))
    measured = tuple(
        Measured(question.title, (one.word, other.word))
        for question, one, other in zip(QUESTIONS, answers(of_left), answers(of_right), strict=True)
        if question.measure and one.word != other.word
    )
    found = replace(found, measured=measured)
    programs = written.read_programs(found, used, paths.reports)
    _write(found, style, programs)
    return Exit.OK


def _runs(what: Sequence[str], style: Format) -> Exit:
    """Two or more runs, the oldest first."""
    if len(set(what)) < len(what):
        raise ComparisonError(f"the same run is given twice: {', '.join(what)}")
    found = run_by_run({word: _reading(word) for word in what})
    _write(found, style, {})
    return Exit.UNEXPECTED if found.changed("worse") else Exit.OK


def _reading(word: str) -> Iterator[Results]:
    """The results of a run, read when they are asked for: a whole run is large."""
    results = read_run(word)
    _say_lacking(results)
    yield from results


def _write(found: SideBySide, style: Format, programs: Mapping[str, tuple[str, str]]) -> None:
    if style is Format.JSON:
        typer.echo(msgspec.json.encode(found))
    elif style is Format.MARKDOWN:
        _print(written.markdown(found, programs))
    else:
        _print(written.lines(found))


def _print(parts: Iterable[str | Text | Table]) -> None:
    width = None if sys.stdout.isatty() else _WIDTH
    console = Console(highlight=False, markup=False, emoji=False, width=width)
    for part in parts:
        if isinstance(part, str):
            typer.echo(part)
        else:
            console.print(part, soft_wrap=isinstance(part, Text))


def _say_lacking(results: Sequence[Results]) -> None:
    """Name on standard error the runs that are not whole."""
    for run in results:
        if run.lacks:
            typer.echo(f"{run.path} is not whole: {run.lacks}", err=True)


def _is_variant(word: str) -> bool:
    """Whether a word names a variant, and not results."""
    return word.count("/") == 1 and not word.endswith((".db", "/")) and not Path(word).exists()


def read_run(word: str) -> list[Results]:
    """The results in a file, or all those in a folder. Raises `ResultsError` where there are none."""
    where = Path(word)
    if not where.exists():
        raise ResultsError("there is no such file or folder", where=where)
    return read_all([], where) if where.is_dir() else read_all([where], where.parent)


def read_all(files: Sequence[Path], folder: Path) -> list[Results]:
    """The results in files, or all those of a folder. Raises `ResultsError` where there are none."""
    found = [store.read(file) for file in files] if files else store.read_folder(folder)
    if not found:
        raise ResultsError("no results here", where=folder, hint="conformance run --adapter NAME")
    return found
