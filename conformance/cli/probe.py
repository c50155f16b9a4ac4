"""`conformance probe`: what somebody's own recompute offers, found by trying."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
import yaml

from conformance.cli.options import (
    AdapterName,
    AdaptersFolder,
    CasesFolder,
    ImplementationAlways,
    ImplementationDiscipline,
    ImplementationName,
    ImplementationOptions,
    implementation_described,
)
from conformance.drivers.adapter import DISCIPLINES, Adapter, Discipline, find_adapter
from conformance.drivers.implementation import Described, adapt
from conformance.errors import ConformanceError
from conformance.language.load import load_folder
from conformance.model.case import Case
from conformance.model.verdict import Status
from conformance.paths import Paths, find_paths
from conformance.results import Result
from conformance.run import probe as probing
from conformance.run.runner import Runner, lacking
from conformance.writing import write_text


def probe(
    adapter: AdapterName,
    implementation: ImplementationName = None,
    option: ImplementationOptions = [],  # noqa: B006 (typer copies it)
    always: ImplementationAlways = [],  # noqa: B006
    discipline: ImplementationDiscipline = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="File to write to [default: standard output]")
    ] = None,
    cases: CasesFolder = None,
    adapters_folder: AdaptersFolder = None,
) -> None:
    """Find what an implementation offers by trying, and write it as the file that `run` takes.

    Looks for the usual keywords, for the discipline that its reruns keep to, and for what it refuses
    with an error. Read the file before you use it: an error that is a fault is none of `refuses`.

    \b
    Example:
      conformance probe --adapter torch --implementation my.memory:checkpoint --output mine.yaml
      conformance run --adapter torch --implementation mine.yaml
    """
    described = implementation_described(implementation, option, always, discipline)
    if described is None:
        raise ConformanceError("name an implementation: --implementation package.module:function")
    paths = find_paths(cases, adapters_folder)
    owner = find_adapter(adapter, paths.adapters)
    every = load_folder(paths.cases)
    with tempfile.TemporaryDirectory(prefix="conformance-probe-") as folder:
        trial = replace(paths, reports=Path(folder))
        described = _with_keywords(owner, described, trial)
        if described.model.discipline is None:
            described = _with_discipline(owner, described, every, trial)
        found = _capabilities(owner, described, every, trial)
    text = _written(described, found)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_text(output, text)
        typer.echo(f"implementation: {output}")


@contextmanager
def _runner(adapter: Adapter, paths: Paths) -> Iterator[Runner]:
    runner = Runner(adapter, paths, paths.reports / "log.txt")
    try:
        yield runner
    finally:
        runner.close()


def _with_keywords(owner: Adapter, described: Described, paths: Paths) -> Described:
    """The implementation with the usual keywords that its function has, under those given."""
    trial = adapt(owner, described)
    with _runner(trial, paths) as runner:
        runner.start(trial.variants[:1])
        names = runner.pool.parameters(trial.variants[0].name, described.model.function)
    usual = probing.keywords(owner.model.usual_keywords, names)
    return _changed(described, options={**usual, **described.model.options})


def _with_discipline(
    owner: Adapter, described: Described, cases: tuple[Case, ...], paths: Paths
) -> Described:
    """The implementation with the discipline that fits its reruns, or without where none does."""
    statuses: dict[Discipline, list[Status | None]] = {}
    for name in DISCIPLINES:
        trial = adapt(owner, _changed(described, discipline=name))
        with _runner(trial, paths) as runner:
            results = [runner.run(case, trial.variants[0]) for case in probing.telling(cases)]
        statuses[name] = [_executions(result) for result in results]  # type: ignore[index]
    found = probing.discipline(statuses)
    return described if found is None else _changed(described, discipline=found)


def _executions(result: Result) -> Status | None:
    return next((v.status for v in result.verdicts if v.check == "executions"), None)


def _capabilities(
    owner: Adapter, described: Described, cases: tuple[Case, ...], paths: Paths
) -> probing.Capable:
    trial = adapt(owner, described)
    variant = trial.variants[0]
    can = [case for case in cases if lacking(case, variant) is None]
    with _runner(trial, paths) as runner:
        runner.emit([(case, variant) for case in can if case.law is None])
        return probing.capabilities(can, lambda case: probing.ended(runner.run(case, variant)))


def _changed(described: Described, **words: object) -> Described:
    return replace(described, model=described.model.model_copy(update=words))


def _written(described: Described, found: probing.Capable) -> str:
    """The implementation as the file that `run` takes, with remarks."""
    model = described.model
    said: dict[str, object] = {"function": model.function}
    said |= {k: v for k, v in (("options", model.options), ("always", model.always)) if v}
    if model.discipline is not None:
        said["discipline"] = model.discipline
    refused = {word: found.refused[word] for word in sorted(found.refused)}
    if refused:
        said["refuses"] = {w: {"raises": r.raises, "match": r.match} for w, r in refused.items()}
    lines = [
        "# Found by trying. An error that does not say what it refuses is a fault: take it out."
    ]
    if model.discipline is None:
        lines.append(
            "# No discipline fits its reruns: a run will say under `executions` what differs."
        )
    lines += [f"# Not told apart: {word} ({how})" for word, how in sorted(found.unclear.items())]
    return "\n".join([*lines, yaml.safe_dump(said, sort_keys=False, width=96)])
