"""`conformance compare`: results of several adapters against each other."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from conformance.cli.options import CasesFolder, ReportsFolder
from conformance.compare import Comparison, CrossStatus
from conformance.compare import compare as compare_results
from conformance.errors import ResultsError
from conformance.exits import Exit
from conformance.language.load import load_folder
from conformance.paths import Paths, find_paths
from conformance.results import Results, read
from conformance.run.shards import PATTERN
from conformance.words import counted

_MERGE = "put the shards of a run together: conformance merge"


class Format(StrEnum):
    """How a comparison of two variants is written."""

    TEXT = "text"
    MARKDOWN = "markdown"


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
            metavar="[RESULTS]... | VARIANT VARIANT",
            help="Results files, all in the reports' folder where left out; or two variants, such as "
            "torch/reentrant.",
        ),
    ] = [],  # noqa: B006 (typer copies it)
    cases: CasesFolder = None,
    reports: ReportsFolder = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also list what has been judged per variant already.")
    ] = False,
    style: Annotated[
        Format, typer.Option("--format", help="Of a comparison of two variants.")
    ] = Format.TEXT,
) -> None:
    """Compare what frameworks computed, executed and kept: who disagrees with whom.

    A disagreement that a check of the variant itself has shown already is not counted again. Exit
    code 1 means that somebody disagrees although each of its own checks passed.

    Of two variants, it says what differs between them, case by case: for those who port code.

    \b
    Examples:
      conformance compare
      conformance compare reports/torch.jsonl reports/jax.jsonl
      conformance compare torch/reentrant torch/non-reentrant
      conformance compare torch/non-reentrant jax/jit --format markdown > porting.md
    """
    paths = find_paths(cases, reports=reports)
    if len(what) == 2 and all(_is_variant(word) for word in what):
        _print_versus(what[0], what[1], paths, style)
        raise typer.Exit(Exit.OK)
    files = [Path(word) for word in what]
    results = read_all(files, paths.reports)
    comparison = compare_results(results, load_folder(paths.cases))
    print_comparison(comparison, everything)
    for run in results:
        if run.header.interrupted:
            typer.echo(f"{run.header.adapter} is not whole: {run.header.interrupted}")
    raise typer.Exit(Exit.OK if comparison.ok else Exit.UNEXPECTED)


def _is_variant(word: str) -> bool:
    """Whether a word names a variant, and not a file of results."""
    return word.count("/") == 1 and not word.endswith(".jsonl") and not Path(word).is_file()


def _print_versus(left: str, right: str, paths: Paths, style: Format) -> None:
    # Here, since a comparison of results needs none of the report.
    from conformance.report.versus import lines, markdown, read_programs, versus

    results = read_all([], paths.reports)
    for run in results:
        if run.header.interrupted and run.header.adapter in (
            word.partition("/")[0] for word in (left, right)
        ):
            typer.echo(f"{run.header.adapter} is not whole: {run.header.interrupted}", err=True)
    differences = versus(left, right, results, load_folder(paths.cases))
    if style is Format.MARKDOWN:
        text = markdown(differences, read_programs(differences, results, paths.reports))
    else:
        text = lines(differences)
    for line in text:
        typer.echo(line)


def read_all(files: Sequence[Path], folder: Path) -> list[Results]:
    """The results files, or all those of a folder. Raises `ResultsError` where there are none.

    Shards that have not been merged are left out of a folder, with a word on standard error, and
    refused where they are named.
    """
    waiting = sorted(folder.glob(f"*{PATTERN}.jsonl")) if not files else []
    chosen = list(files) or sorted(set(folder.glob("*.jsonl")) - set(waiting))
    if waiting:
        names = ", ".join(file.name for file in waiting)
        if not chosen:
            raise ResultsError(f"only shards here: {names}", where=folder, hint=_MERGE)
        typer.echo(f"left out, not merged: {names}\n  hint: {_MERGE}", err=True)
    if not chosen:
        raise ResultsError("no results here", where=folder, hint="conformance run --adapter NAME")
    runs = []
    for file in chosen:
        results = read(file)
        if results.header.shard:
            message = f"shard {results.header.shard} of {results.header.adapter}, no whole run"
            raise ResultsError(message, where=file, hint=_MERGE)
        runs.append(results)
    return runs


def print_comparison(comparison: Comparison, everything: bool) -> None:
    """Disagreements, then how many comparisons ended how."""
    console = Console(highlight=False, soft_wrap=True)
    shown = {CrossStatus.DISAGREE, CrossStatus.JUDGED} if everything else {CrossStatus.DISAGREE}
    for verdict in comparison.verdicts:
        if verdict.status in shown:
            line = Text(f"{verdict.case} {verdict.check}", style="bold")
            line.append(f"\n  {verdict.status}: {verdict.message}", style="not bold")
            console.print(line)
    counts = ", ".join(f"{count} {status}" for status, count in comparison.counts.items() if count)
    variants = counted(len(comparison.variants), "variant")
    console.print(f"{variants} compared: {counts or 'nothing in common'}")
