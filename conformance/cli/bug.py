"""`conformance bug`: a deviation as the text of an issue for the framework's maintainers."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
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
from conformance.drivers.adapter import Adapter, Variant, find_adapter
from conformance.emit import reasons
from conformance.emit.programs import EmitFailure, texts
from conformance.emit.standalone import Compared, Counted, Ending, Raised, standalone
from conformance.errors import ConformanceError, ResultsError, nearest
from conformance.judge import known
from conformance.language.load import load_folder
from conformance.model.case import Case
from conformance.model.observation import Leaf, Run
from conformance.model.verdict import Verdict
from conformance.paths import Paths, find_paths
from conformance.report import issues
from conformance.report.bug import Bug, render, say, slug, title_of
from conformance.report.findings import findings
from conformance.report.outcomes import Outcome, of_verdict
from conformance.results import Result, Results
from conformance.run.alone import Ran, run_alone
from conformance.run.runner import Runner
from conformance.run.shrink import SECONDS, TRIES, shrink
from conformance.writing import write_text


@dataclass(frozen=True)
class _Deviation:
    """A deviation in results: whose, where, and the verdict that says so."""

    adapter: Adapter
    variant: Variant
    case: Case
    result: Result
    verdict: Verdict
    versions: Mapping[str, str]

    @property
    def outcome(self) -> Outcome:
        return of_verdict(self.verdict, self.result)

    @property
    def reason(self) -> str:
        note = self.verdict.known
        return " ".join(note.reason.split()) if note else ""


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
    _, text = _text(deviation, paths, no_shrink, no_run)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_text(output, text)
        typer.echo(f"issue: {output}")


def _find(name: str, case_id: str, check: str, paths: Paths) -> _Deviation:
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
    asked = case.id.partition("[")[0]  # pytest takes no brackets in an expression
    again = f'conformance run --adapter {adapter.name} --variant {bare} -k "{asked}"'
    if not file.is_file():
        raise ResultsError("no results here", where=file, hint=again)
    run = results.read(file)
    result = next((r for r in run.results if (r.case, r.variant) == (case.id, variant.id)), None)
    if result is None:
        raise ResultsError(f"no result of {case.id} on {variant.id}", where=file, hint=again)
    deviating = [v for v in result.verdicts if v.status.deviates]
    if check and check not in [v.check for v in deviating]:
        there = [v.check for v in deviating]
        hint = nearest(check, there) if there else "nothing deviates there"
        raise ConformanceError(
            f"{case.id} does not deviate in {check!r} on {variant.id}", hint=hint
        )
    if not deviating:
        statuses = ", ".join(f"{v.check}: {v.status}" for v in result.verdicts)
        raise ConformanceError(
            f"nothing deviates in {case.id} on {variant.id}", where=file, hint=statuses
        )
    chosen = [v for v in deviating if not check or v.check == check]
    verdict = min(chosen, key=lambda v: of_verdict(v, result).rank)
    return _Deviation(adapter, variant, case, result, verdict, run.header.versions)


# -- all of them --------------------------------------------------------------------------------


def _write_all(
    paths: Paths,
    names: Collection[str],
    folder: Path,
    only_new: bool,
    no_shrink: bool,
    no_run: bool,
) -> None:
    files = [paths.reports / f"{name}.jsonl" for name in names]
    files = files or sorted(paths.reports.glob("*.jsonl"))
    missing = [file.stem for file in files if not file.is_file()]
    if missing or not files:
        which = f" of {', '.join(missing)}" if missing else ""
        hint = f"conformance run --adapter {missing[0] if missing else 'NAME'}"
        raise ResultsError(f"no results here{which}", where=paths.reports, hint=hint)
    loaded = {case.id: case for case in load_folder(paths.cases)}
    for file in files:
        run = results.read(file)
        adapter = find_adapter(run.header.adapter, paths.adapters)
        absent = _missing(adapter)
        if absent and not no_run:
            typer.echo(f"{adapter.name}: not run, {absent} is not installed here", err=True)
        there = issues.reasons_of(folder / adapter.name)
        shown = list(_unreported(adapter, run, loaded))
        kept = {f.reason: there[f.reason] for f in shown if only_new and f.reason in there}
        written = dict(kept)
        for deviation in shown:
            if deviation.reason in kept:
                continue
            try:
                name, text = _text(deviation, paths, no_shrink, no_run or bool(absent))
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


def _index(folder: Path, written: Mapping[str, str]) -> None:
    """Write down which issue is about which reason, and take away those that none is about any more."""
    for name in set(issues.reasons_of(folder).values()) - set(written.values()):
        if Path(name).name == name:
            (folder / name).unlink(missing_ok=True)
    if written:
        write_text(folder / issues.INDEX, issues.to_index(written))


def _unreported(adapter: Adapter, run: Results, cases: Mapping[str, Case]) -> Iterator[_Deviation]:
    """The example of each known reason without an address that results show."""
    entries = known.read(adapter.known)
    reported = {entry.reason for entry in entries if entry.url}
    waiting = {entry.reason for entry in entries} - reported
    by_pair = {(r.case, r.variant): r for r in run.results}
    for finding in findings([run]):
        if finding.words not in waiting or finding.example[0] not in cases:
            continue
        result = by_pair[finding.example]
        verdict = next(v for v in result.verdicts if v.known and v.known.reason == finding.words)
        variant = adapter.variant(result.variant.partition("/")[2])
        waiting.discard(finding.words)
        yield _Deviation(adapter, variant, cases[result.case], result, verdict, run.header.versions)


# -- one of them --------------------------------------------------------------------------------


def _text(deviation: _Deviation, paths: Paths, no_shrink: bool, no_run: bool) -> tuple[str, str]:
    """The name of a file, and the issue."""
    absent = _missing(deviation.adapter)
    if absent and not no_run:
        raise ConformanceError(
            f"{absent} is not installed here, and the program is run before it is reported",
            hint=f"pip install -r {deviation.adapter.folder / 'requirements.txt'}; or --no-run",
        )
    api = deviation.variant.model.title
    shown = _reason_program(deviation, paths)
    if shown is not None:
        name, part, caught = shown
        made = Bug(
            title=part.title,
            api=api,
            verdict=deviation.verdict,
            outcome=deviation.outcome,
            program=part.text,
            versions=deviation.versions if no_run else _versions(deviation),
            environment=part.environment,
            change=part.change,
            reason=deviation.reason,
        )
        made = made if no_run else _run(made, deviation, asserts=part.asserts, errors=caught)
        return name, render(made)
    case, result = deviation.case, deviation.result
    if not no_run:
        case, result = _observed_here(deviation, paths, no_shrink)
    verdict = _like(deviation.verdict, result, case)
    assert verdict is not None
    ending = _ending(case, result, verdict)
    text = texts(deviation.adapter, [(case, deviation.variant)])[case.id, deviation.variant.id]
    if isinstance(text, EmitFailure):
        raise ConformanceError(f"the adapter cannot write this program: {text.message}")
    made = Bug(
        title=title_of(verdict, api),
        api=api,
        verdict=verdict,
        outcome=of_verdict(verdict, result),
        program=standalone(text, ending),
        versions=deviation.versions if no_run else _versions(deviation),
        environment={},
        shows=ending is not None,
        reason=deviation.reason,
    )
    if not no_run:
        made = _run(made, deviation, asserts=isinstance(ending, Compared | Counted))
        if not made.shows and ending is not None:
            made = replace(made, program=standalone(text, None))
    return slug(f"{deviation.variant.name} {deviation.case.id} {verdict.check}"), render(made)


def _run(made: Bug, deviation: _Deviation, *, asserts: bool, errors: Collection[str] = ()) -> Bug:
    """The issue with what its program printed here, and the environment that it needs for that.

    Where the program `asserts`, an assertion ends it, or one of these `errors` does.
    """
    own = {**deviation.adapter.model.environment, **deviation.variant.model.environment}
    beside = deviation.adapter.beside.values()
    ran = Ran(0, "")
    for environment in (made.environment, {**own, **made.environment}):
        ran = run_alone(made.program, environment, beside)
        ends = ran.asserted or any(error in ran.output for error in errors)
        if ran.code and ran.is_program and (ends or not asserts):
            return replace(made, environment=environment, output=ran.output)
    if made.change:
        raise ConformanceError(
            f"the program of this reason does not show it here: {ran.output[-300:] or 'it passes'}",
            hint="has the framework been repaired? conformance run says what holds",
        )
    return replace(made, shows=False, output=ran.output)


def _reason_program(
    deviation: _Deviation, paths: Paths
) -> tuple[str, reasons.Shown, tuple[str, ...]] | None:
    """The program of a known reason, where a checkout has one, and the names of the errors that it takes
    for what is wrong."""
    root = paths.adapters.parent
    best: tuple[int, Path] | None = None
    for file in sorted((root / "tests" / "reasons" / deviation.adapter.name).glob("*.py")):
        begins = reasons.reason_of(file.read_text("utf-8"))
        if (
            begins
            and deviation.reason.startswith(begins)
            and (best is None or len(begins) > best[0])
        ):
            best = len(begins), file
    if best is None:
        return None
    source = best[1].read_text("utf-8")
    caught = tuple(
        re.findall(r"\w*(?:Error|Exception)\b", " ".join(re.findall(r"except (.*):", source)))
    )
    name = best[1].stem.replace("_", "-")
    return name, reasons.alone(source, partial(_module, root), say), caught


def _module(root: Path, name: str) -> str:
    """The source of a module of a checkout."""
    path = root.joinpath(*name.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text("utf-8")


def _observed_here(deviation: _Deviation, paths: Paths, no_shrink: bool) -> tuple[Case, Result]:
    """The case, made smaller, and what is observed of it here. Raises where the check passes here."""
    with tempfile.TemporaryDirectory(prefix="conformance-bug-") as folder:
        trial = replace(paths, reports=Path(folder))
        runner = Runner(deviation.adapter, trial, Path(folder) / "log.txt")
        try:
            result = runner.run(deviation.case, deviation.variant)
            seen = _like(deviation.verdict, result, deviation.case)
            if seen is None:
                now = "; ".join(f"{v.check}: {v.message}" for v in result.verdicts)
                which = f"{deviation.verdict.check} of {deviation.case.id}"
                raise ConformanceError(
                    f"{which} passes on {deviation.variant.id} here",
                    hint=f"the results are of {dict(deviation.versions)}; now {now[:300]}",
                )
            if no_shrink:
                return deviation.case, result
            kind, last = _kind(seen, result, deviation.case), [result]

            def fails(case: Case) -> bool:
                tried = runner.run(case, deviation.variant)
                shown = _like(seen, tried, case)
                same = shown is not None and _kind(shown, tried, case) == kind
                if same:
                    last[0] = tried
                return same

            # What failed last is the smallest.
            return shrink(deviation.case, fails, tries=TRIES, seconds=SECONDS), last[0]
        finally:
            runner.close()


def _like(verdict: Verdict, result: Result, case: Case) -> Verdict | None:
    """The deviation of the same check in a result: the first one of the same kind, or else the first.
    `None` where there is none."""
    there = [v for v in result.verdicts if v.check == verdict.check and v.status.deviates]
    kind = _kind(verdict, result, case)
    return next((v for v in there if _kind(v, result, case) == kind), there[0] if there else None)


def _kind(verdict: Verdict, result: Result, case: Case) -> tuple[str, ...]:
    """What kind of finding a verdict is, whatever the numbers and names."""
    names = "|".join(re.escape(n) for n in sorted(case.names(), key=len, reverse=True))
    words = re.sub(rf"\b({names})\b", "NAME", verdict.message) if names else verdict.message
    words = re.sub(r"[\d.e+-]*\d[\d.e+-]*", "0", words)
    start = re.split(r"[\[({:]|, but should| in 0 of", words)[0].strip()
    return verdict.status, of_verdict(verdict, result), start


def _ending(case: Case, result: Result, verdict: Verdict) -> Ending:
    """What the program is to compare in the end, or `None` where it cannot see it itself."""
    seen = result.observation
    if seen is None or verdict.check == "error":
        return Raised(case.error.type if case.error else "")
    if verdict.check == "executions":
        return _counted(result)
    if verdict.check in ("retained memory", "peak memory", "release"):
        return None
    tolerance = case.tolerance
    for key in ("gradients", "again", "parameters", "state", "losses", "outputs"):
        plain, recomputed = getattr(seen.plain, key), getattr(seen.recomputed, key)
        for place in _different(plain, recomputed, tolerance.rtol, tolerance.atol):
            missing = _at(plain, place) is None or _at(recomputed, place) is None
            return Compared((key, *place), tolerance.rtol, tolerance.atol, missing)
    return None


def _at(tree: Any, place: tuple[str | int, ...]) -> object:
    for key in place:
        tree = tree[key]
    return tree


def _different(
    plain: object, recomputed: object, rtol: float, atol: float
) -> Iterator[tuple[str | int, ...]]:
    """The paths at which two trees of values differ."""
    if isinstance(plain, Mapping) and isinstance(recomputed, Mapping):
        for key in plain:
            for rest in _different(plain[key], recomputed.get(key), rtol, atol):
                yield (key, *rest)
    elif isinstance(plain, tuple | list) and isinstance(recomputed, tuple | list):
        for number, (one, other) in enumerate(zip(plain, recomputed, strict=False)):
            for rest in _different(one, other, rtol, atol):
                yield (number, *rest)
    else:
        one, other = (v.array if isinstance(v, Leaf) else v for v in (plain, recomputed))
        if (one is None) != (other is None):
            yield ()
        elif isinstance(one, np.ndarray | float) and isinstance(other, np.ndarray | float):
            same = np.shape(one) == np.shape(other)
            if not same or not np.allclose(other, one, rtol=rtol, atol=atol, equal_nan=True):
                yield ()


def _counted(result: Result) -> Ending:
    """The first region whose function runs too often or not often enough, and how often it should."""
    assert result.observation is not None
    run: Run = result.observation.recomputed
    if run.executions is None or result.expected is None:
        return None
    for (region, statement, phase), allowed in result.expected.executions.items():
        if statement or phase != "rerun":
            continue
        seen = [e for e in run.executions if (e.region, e.statement) == (region, "")]
        counts = {e.phase: e.count for e in seen}
        first = result.expected.executions.get((region, "", "forward"))
        if first is None or counts.get("rerun", 0) in allowed:
            continue
        right = tuple(sorted({f + again for f in first.counts for again in allowed.counts}))
        if sum(counts.values()) not in right:
            return Counted(region, right)
    return None


# -- versions -----------------------------------------------------------------------------------


def _missing(adapter: Adapter) -> str:
    """The first package of an adapter that is not installed here."""
    for package in adapter.model.packages:
        try:
            importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return package
    return ""


def _versions(deviation: _Deviation) -> dict[str, str]:
    """The versions of what the program runs on here."""
    packages = dict.fromkeys([*deviation.adapter.model.packages, "numpy"])
    return {
        **{name: importlib.metadata.version(name) for name in packages},
        "Python": platform.python_version(),
        "platform": " ".join((platform.system(), platform.machine(), *platform.libc_ver())),
    }
