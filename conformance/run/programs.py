"""Programs about one framework's own features (`adapters/<name>/programs`), judged beside the cases.

A program is checked as `conformance check` does it (`docs/check.md`). Its lines become verdicts of the
checks of cases, and the result is stored as that of a case `programs/<name>` on one variant.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conformance.checking.judge import Line
from conformance.checking.run import check
from conformance.drivers.adapter import Adapter, Variant
from conformance.errors import AdapterError, ConformanceError, nearest
from conformance.model.case import Position
from conformance.model.facts import Fact, Inert
from conformance.model.result import Result
from conformance.model.verdict import Level, Status, Verdict
from conformance.run.runner import absent
from conformance.words import counted
from conformance.writing import writing

FAMILY = "programs"
#: Which check of cases a line belongs to. Other lines are notes.
_CHECKS: Mapping[str, str] = {
    "error": "error",
    "loss": "value",
    "outputs": "value",
    "parameters": "value",
    "gradients": "gradient",
    "buffers": "state",
    "random state": "randomness",
    "ran again": "executions",
    "memory": "peak memory",
    "growth": "release",
}
#: Statuses of lines, the worst first.
_WORST = (
    *(Status.BROKEN, Status.CRASHED, Status.TIMEOUT, Status.FAIL, Status.WARN),
    *(Status.PASS, Status.REPORT, Status.UNSUPPORTED),
)


@dataclass(frozen=True)
class OwnProgram:
    """A program, and the variant (by name) in whose results it is."""

    file: Path
    variant: str

    @property
    def id(self) -> str:
        return f"{FAMILY}/{self.file.stem}"

    @property
    def where(self) -> Position:
        return Position(str(self.file), 1, 1)


def programs_of(adapter: Adapter) -> tuple[OwnProgram, ...]:
    """The programs of an adapter, by name. Raises `AdapterError` where `adapter.yaml` names one that is
    not there."""
    files = {file.stem: file for file in sorted((adapter.folder / FAMILY).glob("*.py"))}
    about = adapter.model.programs
    for name, variant in about.items():
        if name not in files:
            raise AdapterError(
                f"programs: there is no program {name!r}",
                where=adapter.folder / "adapter.yaml",
                hint=nearest(name, files),
            )
        adapter.variant(variant)
    first = next(iter(adapter.model.variants))
    return tuple(OwnProgram(file, about.get(name, first)) for name, file in files.items())


def judged(program: OwnProgram, adapter: Adapter, variant: Variant, reports: Path) -> Result:
    """Check a program in a process of its own. A copy of it is put beside the emitted programs in the
    folder `reports`. Raises `WriteError` where that cannot be done."""
    copied = Path("programs", adapter.name, variant.name, f"{program.id}.py")
    with writing(reports / copied):
        (reports / copied).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(program.file, reports / copied)
    try:
        result = check(
            program.file,
            adapter=str(adapter.folder),
            time_limit=adapter.model.time_limit,
            adapters_folder=adapter.folder.parent,
        )
        found = tuple(verdicts(result.lines))
        broken = [one.message for one in found if one.status is Status.BROKEN]
        found = next(((one,) for text in broken if (one := absent(variant, text))), found)
    except ConformanceError as error:
        found = (Verdict("error", Status.BROKEN, Level.MUST, str(error)),)
    return Result(program.id, variant.id, found, None, None, str(copied))


def verdicts(lines: Iterable[Line]) -> tuple[Verdict, ...]:
    """One verdict for each check: that of its worst line."""
    by_check: dict[str, list[Line]] = {"error": []}
    for line in lines:
        if line.check in _CHECKS:
            by_check.setdefault(_CHECKS[line.check], []).append(line)
    return tuple(_verdicts(by_check))


def _verdicts(by_check: Mapping[str, Sequence[Line]]) -> Iterator[Verdict]:
    for check_name, lines in by_check.items():
        if not lines:
            yield Verdict(check_name, Status.PASS, Level.MUST, "raised no error")
            continue
        worst = min(lines, key=lambda line: _WORST.index(line.status))
        others = [line.check for line in lines if line.status is worst.status and line is not worst]
        message = f"{worst.check}: {worst.message}" if worst.check != check_name else worst.message
        if others and worst.status.deviates:
            message += f"; so {counted(len(others), 'other')}: {', '.join(others)}"
        facts: tuple[Fact, ...] = ()
        if worst.check == "ran again" and worst.status is Status.FAIL:
            facts = (Inert("", "", ()),)
        observed = "\n".join(worst.details)
        yield Verdict(
            check_name, worst.status, worst.level, message, observed=observed, facts=facts
        )
