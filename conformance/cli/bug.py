"""`conformance bug`: a deviation as the text of an issue for the framework's maintainers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from conformance import results
from conformance.cli.options import (
    AdaptersFolder,
    CasesFolder,
    ReportsFolder,
    case_named,
    complete_case,
    complete_variant,
)
from conformance.drivers.adapter import Adapter, find_adapter
from conformance.errors import ConformanceError, ResultsError, nearest
from conformance.judge import known
from conformance.judge.outcomes import of_verdict
from conformance.language.load import load_folder
from conformance.model.case import Case
from conformance.paths import Paths, find_paths
from conformance.report import issues
from conformance.report.findings import findings
from conformance.results import Results
from conformance.run.issue import Deviation, missing_package, write_issue
from conformance.writing import write_text


def bug(
    variant: Annotated[
        str,
        typer.Argument(
            metavar="[VARIANT]", help="torch/reentrant", autocompletion=complete_variant
        ),
    ] = "",
    case: Annotated[
        str,
        typer.Argument(metavar="[CASE]", help="A case's id.", autocompletion=complete_case),
    ] = "",
    everything: Annotated[
        bool,
        typer.Option("--all", help="One for each known reason without an upstream report."),
    ] = False,
    adapter: Annotated[
        list[str], typer.Option("--adapter", help="With --all, of this adapter alone; repeatable.")
    ] = [],  # noqa: B006 (typer copies it)
    check: Annotated[
        str, typer.Option("--check", help="Of this check [default: the gravest deviation]")
    ] = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", help="File to write to, with --all the folder."),
    ] = None,
    only_new: Annotated[
        bool,
        typer.Option(
            "--new", help="With --all, keep the issues that the folder has, write others."
        ),
    ] = False,
    no_shrink: Annotated[
        bool, typer.Option("--no-shrink", help="Leave the program as long as it is.")
    ] = False,
    no_run: Annotated[
        bool,
        typer.Option("--no-run", help="From results alone: the framework need not be here."),
    ] = False,
    cases: CasesFolder = None,
    adapters_folder: AdaptersFolder = None,
    reports: ReportsFolder = None,
) -> None:
    """Write a deviation down as an issue: the smallest program that shows it, expected, observed.

    The program needs the framework and NumPy alone. It is the one of the deviation's known reason, or
    else the emitted one, made smaller for as long as the same check fails in the same way; and it is run
    here, in the framework's environment, before it is reported.

    \b
    Examples:
      conformance bug torch/reentrant captures/frozen-input
      conformance bug --all --adapter torch --output reports/bugs
    """
    paths = find_paths(cases, adapters_folder, reports)
    if everything:
        folder = output or paths.reports / issues.FOLDER
        _write_all(paths, adapter, folder, only_new, no_shrink, no_run)
        return
    if not variant or not case:
        raise ConformanceError(
            "name a variant and a case",
            hint="conformance bug torch/reentrant captures/frozen-input",
        )
    deviation = _find(variant, case, check, paths)
    _, text = write_issue(deviation, paths, no_shrink=no_shrink, no_run=no_run)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_text(output, text)
        typer.echo(f"issue: {output}")


def _find(name: str, case_id: str, check: str, paths: Paths) -> Deviation:
    """The deviation of a case on a variant. Raises `ConformanceError` where there is none."""
    owner, _, bare = name.partition("/")
    if not bare:
        raise ConformanceError(
            f"{name!r} is no variant of an adapter", hint="both, as in torch/reentrant"
        )
    adapter = find_adapter(owner, paths.adapters)
    variant = adapter.variant(bare)
    case = case_named(case_id, paths.cases)
    file = paths.reports / f"{adapter.name}.jsonl"
    keyword = case.id.partition("[")[0]  # pytest takes no brackets in an expression
    command = f'conformance run --adapter {adapter.name} --variant {bare} -k "{keyword}"'
    if not file.is_file():
        raise ResultsError("no results here", where=file, hint=command)
    run = results.read(file)
    result = next((r for r in run.results if (r.case, r.variant) == (case.id, variant.id)), None)
    if result is None:
        raise ResultsError(f"no result of {case.id} on {variant.id}", where=file, hint=command)
    deviating = [v for v in result.verdicts if v.status.deviates]
    if check and check not in [v.check for v in deviating]:
        checks = [v.check for v in deviating]
        hint = nearest(check, checks) if checks else "nothing deviates there"
        raise ConformanceError(
            f"{case.id} does not deviate in {check!r} on {variant.id}", hint=hint
        )
    if not deviating:
        statuses = ", ".join(f"{v.check}: {v.status}" for v in result.verdicts)
        raise ConformanceError(
            f"nothing deviates in {case.id} on {variant.id}", where=file, hint=statuses
        )
    candidates = [v for v in deviating if not check or v.check == check]
    verdict = min(candidates, key=lambda v: of_verdict(v, result).rank)
    return Deviation(adapter, variant, case, result, verdict, run.header.versions)


# -- all of them --------------------------------------------------------------------------------


def _write_all(
    paths: Paths,
    names: Sequence[str],
    folder: Path,
    only_new: bool,
    no_shrink: bool,
    no_run: bool,
) -> None:
    """Write an issue for each known reason without an upstream report, of the adapters of these names,
    or of all with results. With `only_new`, issues that are there already stay as they are."""
    files = _results_files(paths, names)
    loaded = {case.id: case for case in load_folder(paths.cases)}
    for file in files:
        run = results.read(file)
        adapter = find_adapter(run.header.adapter, paths.adapters)
        absent = missing_package(adapter)
        if absent and not no_run:
            typer.echo(f"{adapter.name}: not run, {absent} is not installed here", err=True)
        existing = issues.reasons_of(folder / adapter.name) if only_new else {}
        deviations = list(_unreported(adapter, run, loaded))
        written = {d.reason: existing[d.reason] for d in deviations if d.reason in existing}
        for deviation in deviations:
            if deviation.reason in existing:
                continue
            try:
                name, text = write_issue(
                    deviation, paths, no_shrink=no_shrink, no_run=no_run or bool(absent)
                )
            except ConformanceError as error:
                typer.echo(f"{deviation.variant.id} {deviation.case.id}: {error}", err=True)
                continue
            while f"{name}.md" in written.values():
                name += "-too"
            target = folder / adapter.name / f"{name}.md"
            write_text(target, text)
            written[deviation.reason] = target.name
            so_far = issues.reasons_of(target.parent) | written
            write_text(target.parent / issues.INDEX, issues.to_index(so_far))
            typer.echo(str(target))
        _index(folder / adapter.name, written)


def _results_files(paths: Paths, names: Sequence[str]) -> list[Path]:
    """The results files of these adapters, or all where none is named. Raises `ResultsError` where one
    is not there."""
    files = [paths.reports / f"{name}.jsonl" for name in names]
    files = files or sorted(paths.reports.glob("*.jsonl"))
    missing = [file.stem for file in files if not file.is_file()]
    if missing or not files:
        which = f" of {', '.join(missing)}" if missing else ""
        hint = f"conformance run --adapter {missing[0] if missing else 'NAME'}"
        raise ResultsError(f"no results here{which}", where=paths.reports, hint=hint)
    return files


def _index(folder: Path, written: Mapping[str, str]) -> None:
    """Write the index of an adapter's issues by reason, and delete the issues that are not in it."""
    for name in set(issues.reasons_of(folder).values()) - set(written.values()):
        if Path(name).name == name:
            (folder / name).unlink(missing_ok=True)
    if written:
        write_text(folder / issues.INDEX, issues.to_index(written))


def _unreported(adapter: Adapter, run: Results, cases: Mapping[str, Case]) -> Iterator[Deviation]:
    """The example of each known reason without an address that results show."""
    entries = known.read(adapter.known)
    reported = {entry.reason for entry in entries if entry.url}
    unreported = {entry.reason for entry in entries} - reported
    by_pair = {(r.case, r.variant): r for r in run.results}
    for finding in findings([run]):
        if finding.words not in unreported or finding.example[0] not in cases:
            continue
        result = by_pair[finding.example]
        verdict = next(v for v in result.verdicts if v.known and v.known.reason == finding.words)
        variant = adapter.variant(result.variant.partition("/")[2])
        unreported.discard(finding.words)
        yield Deviation(adapter, variant, cases[result.case], result, verdict, run.header.versions)
