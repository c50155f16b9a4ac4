"""`conformance compare`: compare the results of variants, or of runs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from conformance import store
from conformance.cli.options import CasesFolder, ReportsFolder
from conformance.compare import beside, written
from conformance.compare import compare as compare_results
from conformance.errors import ComparisonError, ResultsError
from conformance.exits import Exit
from conformance.language.load import load_folder
from conformance.model.result import Results
from conformance.paths import find_paths


class Format(StrEnum):
    """How a comparison is written."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


ResultsFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="RESULTS",
        help="Files or folders of results [default: all in reports/].",
        show_default=False,
    ),
]


def compare(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="[VARIANT VARIANT | OLD NEW...]",
            help="Two variants, such as torch/reentrant; or two or more runs, each a folder or a file "
            "of results [default: all variants in reports/].",
            show_default=False,
        ),
    ] = [],  # noqa: B006 (typer copies it)
    cases: CasesFolder = None,
    reports: ReportsFolder = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also list disagreements that a variant's own checks show."),
    ] = False,
    style: Annotated[
        Format, typer.Option("--format", help="The format of the output.")
    ] = Format.TEXT,
) -> None:
    """Compare results: all variants with each other, two variants, or two and more runs.

    All variants: which ones disagree on values, executions and memory. Exit code 1 means that
    variants disagree although each passes its own checks.

    Two variants: the cases in which they differ. The exit code is 0.

    Runs of the same adapters, the oldest first: outcomes that are worse or better, and numbers and
    versions that changed. Exit code 1 means that something is worse than in the run before.

    \b
    Examples:
      conformance compare
      conformance compare torch/reentrant torch/non-reentrant
      conformance compare torch/non-reentrant jax/jit --format markdown > porting.md
      conformance compare last-week/ reports/
      conformance compare runs/* --format json
    """
    folder = find_paths(cases, reports=reports)
    in_markdown = style is Format.MARKDOWN
    programs: dict[str, tuple[str, str]] = {}
    if len(what) == 2 and all(map(_is_variant, what)):
        results = read_all([], folder.reports, [word.partition("/")[0] for word in what])
        found = _variants(what[0], what[1], results, folder.cases)
        if in_markdown:
            programs = written.read_programs(found, results, folder.reports)
    elif len(what) > 1:
        if len(set(what)) < len(what):
            raise ComparisonError(f"found the same run twice: {', '.join(what)}")
        found = beside.run_by_run({word: _reading(word) for word in what})
    else:
        results = read_all([Path(word) for word in what], folder.reports)
        comparison = compare_results(results, load_folder(folder.cases))
        text = written.agreement(comparison, everything=everything, in_markdown=in_markdown)
        _print(comparison if style is Format.JSON else text)
        raise typer.Exit(Exit.OK if comparison.ok else Exit.UNEXPECTED)
    text = written.lines(found, in_markdown=in_markdown, programs=programs)
    _print(found if style is Format.JSON else text)
    raise typer.Exit(Exit.UNEXPECTED if found.of_runs and found.changed("worse") else Exit.OK)


def _variants(left: str, right: str, results: Sequence[Results], cases: Path) -> beside.SideBySide:
    """Two variants, case by case, and the measures of the report that differ."""
    # Here, since a comparison of runs needs none of the report.
    from conformance.report.questions import QUESTIONS, answers

    of_left, of_right = (beside.of_variant(name, results) for name in (left, right))
    used = [run for run in results if {left, right} & set(run.header.variants)]
    beside.belong_together([used])
    measured = tuple(
        beside.Measured(question.title, (one.word, other.word))
        for question, one, other in zip(QUESTIONS, answers(of_left), answers(of_right), strict=True)
        if question.measure and one.word != other.word
    )
    found = beside.side_by_side(of_left, of_right, load_folder(cases))
    return replace(found, measured=measured)


def _reading(word: str) -> Iterator[Results]:
    """The results of a run, read when they are asked for: a whole run is large."""
    yield from read_all([Path(word)], Path(word))


def _print(what: object) -> None:
    parts = what if isinstance(what, Iterator) else [msgspec.json.encode(what)]
    for part in parts:
        typer.echo(part)


def _is_variant(word: str) -> bool:
    return word.count("/") == 1 and not word.endswith((".db", "/")) and not Path(word).exists()


def read_all(places: Sequence[Path], folder: Path, adapters: Sequence[str] = ()) -> list[Results]:
    """The results in files and folders; or where none is given, all those of `folder`, or of these
    adapters if there are any of theirs. Names on standard error the runs that are not whole.

    Raises `ResultsError` where there are none.
    """
    read = [store.read_folder(p) if p.is_dir() else [store.read(p)] for p in places]
    if not places:
        read = [store.read_folder(folder, adapters) or store.read_folder(folder)]
    found = [run for runs in read for run in runs]
    if not found:
        raise ResultsError(
            "found no results", where=folder, hint="run `conformance run --adapter NAME`"
        )
    for run in found:
        if run.lacks:
            typer.echo(f"{run.path} is incomplete: {run.lacks}", err=True)
    return found
