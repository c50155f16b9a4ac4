"""A deviation written down as an issue for the framework's maintainers, its program run here first."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from conformance.drivers.adapter import Adapter, Variant
from conformance.emit import reasons
from conformance.emit.programs import EmitFailure, texts
from conformance.emit.standalone import Compared, Counted, standalone
from conformance.errors import ConformanceError
from conformance.judge.outcomes import Outcome, of_verdict
from conformance.model.case import Case
from conformance.model.verdict import Verdict
from conformance.paths import Paths
from conformance.report.bug import Bug, render, say, slug, title_of
from conformance.results import Result
from conformance.run.alone import ProgramRun, run_alone
from conformance.run.ending import expected_ending
from conformance.run.runner import Runner
from conformance.run.shrink import SECONDS, TRIES, shrink


@dataclass(frozen=True)
class Deviation:
    """A deviation in results: the verdict that says so, and what it is about; `versions` are those of
    the run."""

    adapter: Adapter
    variant: Variant
    case: Case
    result: Result
    verdict: Verdict
    versions: Mapping[str, str]

    @property
    def outcome(self) -> Outcome:
        """What the verdict means for a user."""
        return of_verdict(self.verdict, self.result)

    @property
    def reason(self) -> str:
        """The known reason, on one line; empty where it is not known."""
        note = self.verdict.known
        return " ".join(note.reason.split()) if note else ""


def write_issue(
    deviation: Deviation, paths: Paths, *, no_shrink: bool, no_run: bool
) -> tuple[str, str]:
    """The name of a file, without a suffix, and the text of the issue.

    The program is that of the deviation's known reason, where a checkout has one, else the emitted one,
    made smaller unless `no_shrink`. Raises `ConformanceError` where the framework is not installed, or
    the deviation does not show here; not with `no_run`, which goes by the results alone.
    """
    absent = missing_package(deviation.adapter)
    if absent and not no_run:
        raise ConformanceError(
            f"{absent} is not installed here, and the program is run before it is reported",
            hint=f"pip install -r {deviation.adapter.folder / 'requirements.txt'}; or --no-run",
        )
    reason = _reason_program(deviation, paths)
    if reason is not None:
        return reason.name, render(_bug_of_reason(deviation, reason, no_run))
    case, result = deviation.case, deviation.result
    if not no_run:
        case, result = _observed_here(deviation, paths, no_shrink)
    verdict = _same_deviation(deviation.verdict, result, case)
    assert verdict is not None
    name = slug(f"{deviation.variant.name} {deviation.case.id} {verdict.check}")
    return name, render(_bug_of_case(deviation, case, result, verdict, no_run))


def _bug_of_reason(deviation: Deviation, reason: ReasonProgram, no_run: bool) -> Bug:
    """The issue with the program of a known reason."""
    shown = reason.shown
    bug = Bug(
        title=shown.title,
        api=deviation.variant.model.title,
        verdict=deviation.verdict,
        outcome=deviation.outcome,
        program=shown.text,
        versions=deviation.versions if no_run else _versions(deviation),
        environment=shown.environment,
        change=shown.change,
        reason=deviation.reason,
    )
    if no_run:
        return bug
    return _with_output(bug, deviation, asserts=shown.asserts, errors=reason.errors)


def _bug_of_case(
    deviation: Deviation, case: Case, result: Result, verdict: Verdict, no_run: bool
) -> Bug:
    """The issue with the emitted program of a case."""
    api = deviation.variant.model.title
    ending = expected_ending(case, result, verdict)
    text = texts(deviation.adapter, [(case, deviation.variant)])[case.id, deviation.variant.id]
    if isinstance(text, EmitFailure):
        raise ConformanceError(f"the adapter cannot write this program: {text.message}")
    bug = Bug(
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
    if no_run:
        return bug
    bug = _with_output(bug, deviation, asserts=isinstance(ending, Compared | Counted))
    if not bug.shows and ending is not None:
        return replace(bug, program=standalone(text, None))
    return bug


def _with_output(
    bug: Bug, deviation: Deviation, *, asserts: bool, errors: Collection[str] = ()
) -> Bug:
    """The issue with what its program printed here, and the environment that it needs for that.

    Where the program `asserts`, an assertion ends it, or one of these `errors` does. Raises
    `ConformanceError` where the program of a known reason does not show it.
    """
    own = {**deviation.adapter.model.environment, **deviation.variant.model.environment}
    beside = deviation.adapter.beside.values()
    run = ProgramRun(0, "")
    for environment in (bug.environment, {**own, **bug.environment}):
        run = run_alone(bug.program, environment, beside)
        shows = run.asserted or any(error in run.output for error in errors)
        if run.code and run.is_program and (shows or not asserts):
            return replace(bug, environment=environment, output=run.output)
    if bug.change:
        raise ConformanceError(
            f"the program of this reason does not show it here: {run.output[-300:] or 'it passes'}",
            hint="has the framework been repaired? conformance run says what holds",
        )
    return replace(bug, shows=False, output=run.output)


@dataclass(frozen=True)
class ReasonProgram:
    """The program of a known reason: the name of its file, what stands alone of it, and the names of
    the errors that it takes for what is wrong."""

    name: str
    shown: reasons.Shown
    errors: tuple[str, ...]


def _reason_program(deviation: Deviation, paths: Paths) -> ReasonProgram | None:
    """The program of a known reason, where a checkout has one: of several, that whose own reason is the
    longest beginning of the deviation's."""
    root = paths.adapters.parent
    sources = {
        file: file.read_text("utf-8")
        for file in sorted((root / "tests" / "reasons" / deviation.adapter.name).glob("*.py"))
    }
    beginnings = {file: reasons.reason_of(source) for file, source in sources.items()}
    fitting = [
        file for file, words in beginnings.items() if words and deviation.reason.startswith(words)
    ]
    if not fitting:
        return None
    file = max(fitting, key=lambda file: len(beginnings[file]))
    caught = " ".join(re.findall(r"except (.*):", sources[file]))
    return ReasonProgram(
        file.stem.replace("_", "-"),
        reasons.alone(sources[file], partial(_module, root), say),
        tuple(re.findall(r"\w*(?:Error|Exception)\b", caught)),
    )


def _module(root: Path, name: str) -> str:
    """The source of a module of a checkout."""
    path = root.joinpath(*name.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text("utf-8")


def _observed_here(deviation: Deviation, paths: Paths, no_shrink: bool) -> tuple[Case, Result]:
    """The case, made smaller unless `no_shrink`, and its result here. Raises `ConformanceError` where
    the check passes here."""
    with tempfile.TemporaryDirectory(prefix="conformance-bug-") as folder:
        trial = replace(paths, reports=Path(folder))
        runner = Runner(deviation.adapter, trial, Path(folder) / "log.txt")
        try:
            result = runner.run(deviation.case, deviation.variant)
            verdict = _same_deviation(deviation.verdict, result, deviation.case)
            if verdict is None:
                now = "; ".join(f"{v.check}: {v.message}" for v in result.verdicts)
                which = f"{deviation.verdict.check} of {deviation.case.id}"
                raise ConformanceError(
                    f"{which} passes on {deviation.variant.id} here",
                    hint=f"the results are of {dict(deviation.versions)}; now {now[:300]}",
                )
            if no_shrink:
                return deviation.case, result
            kind = _kind(verdict, result, deviation.case)
            smallest = result  # what failed last is the smallest

            def fails(case: Case) -> bool:
                nonlocal smallest
                candidate = runner.run(case, deviation.variant)
                deviating = _same_deviation(verdict, candidate, case)
                same = deviating is not None and _kind(deviating, candidate, case) == kind
                if same:
                    smallest = candidate
                return same

            case = shrink(deviation.case, fails, tries=TRIES, seconds=SECONDS)
            return case, smallest
        finally:
            runner.close()


def _same_deviation(verdict: Verdict, result: Result, case: Case) -> Verdict | None:
    """The deviation of the same check in a result: the first one of the same kind, or else the first.
    `None` where there is none."""
    deviating = [v for v in result.verdicts if v.check == verdict.check and v.status.deviates]
    kind = _kind(verdict, result, case)
    first = deviating[0] if deviating else None
    return next((v for v in deviating if _kind(v, result, case) == kind), first)


def _kind(verdict: Verdict, result: Result, case: Case) -> tuple[str, ...]:
    """What kind of deviation a verdict is: its status, its outcome, and the beginning of its message
    with numbers and the case's names replaced."""
    names = "|".join(re.escape(n) for n in sorted(case.names(), key=len, reverse=True))
    words = re.sub(rf"\b({names})\b", "NAME", verdict.message) if names else verdict.message
    words = re.sub(r"[\d.e+-]*\d[\d.e+-]*", "0", words)
    start = re.split(r"[\[({:]|, but should| in 0 of", words)[0].strip()
    return verdict.status, of_verdict(verdict, result), start


def missing_package(adapter: Adapter) -> str:
    """The first package of an adapter that is not installed here."""
    for package in adapter.model.packages:
        try:
            importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return package
    return ""


def _versions(deviation: Deviation) -> dict[str, str]:
    """The versions of what the program runs on here."""
    packages = dict.fromkeys([*deviation.adapter.model.packages, "numpy"])
    return {
        **{name: importlib.metadata.version(name) for name in packages},
        "Python": platform.python_version(),
        "platform": " ".join((platform.system(), platform.machine(), *platform.libc_ver())),
    }
