"""Running the check of a program in a worker process, and what comes of it."""

from __future__ import annotations

import contextlib
import pickle
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from conformance.checking.judge import Line, conclusion, is_right, judge
from conformance.checking.source import ProgramFileError, Source, read
from conformance.checking.why import Guess, guesses
from conformance.drivers.adapter import Adapter, all_adapters, find_adapter
from conformance.errors import BrokenAdapterError
from conformance.judge.known import read as read_known
from conformance.model.checked import Checked
from conformance.model.verdict import Level, Status
from conformance.observe.pool import ending
from conformance.observe.process import Answered, Died, Late, Output, Process
from conformance.observe.worker.checking import entry
from conformance.observe.worker.serve import Broken
from conformance.paths import find_paths

#: Seconds in which Python has to start and read its request.
_START = 120.0
#: What is said where the time limit ended a check.
_LONGER = "If it only needs longer, give it more time: --time-limit SECONDS."


@dataclass(frozen=True)
class Result:
    """The check of a program: what was observed, and the lines that judge it. `ok` tells whether
    nothing that must hold is violated."""

    file: Path
    checked: Checked
    lines: tuple[Line, ...]
    #: Known causes that the deviation looks like.
    guesses: tuple[Guess, ...] = ()
    printed: str = ""

    @property
    def ok(self) -> bool:
        return is_right(self.lines)

    @property
    def conclusion(self) -> str:
        return conclusion(self.file.name, self.checked, self.lines)

    def __str__(self) -> str:
        told = (
            f"{one.check}: {one.message}" for one in self.lines if one.status is not Status.PASS
        )
        return "\n".join((self.conclusion, *told))


def check(
    file: str | Path,
    *,
    adapter: str | None = None,
    steps: int = 3,
    bisect: bool = False,
    time_limit: float = 600.0,
    adapters_folder: Path | None = None,
) -> Result:
    """Check a user's program, with and without recomputation, in a process of its own.

    The file defines `model(recompute)`, `batch(step)` and `loss(model, batch)`, or `plain`,
    `recomputed` and `run(forward)`. `adapter` names its framework, which is found by its imports
    otherwise. `steps` of training are compared. Raises `ConformanceError` where the file is no such
    program, or the framework is not installed.
    """
    folder = find_paths(adapters=adapters_folder).adapters
    chosen = None if adapter is None else find_adapter(adapter, folder)
    if steps < 1:
        raise ProgramFileError(f"--steps {steps}: at least one step is needed")
    source = read(Path(file), all_adapters(folder), chosen)
    return _judged(source, steps, bisect, time_limit)


def _judged(source: Source, steps: int, bisect: bool, time_limit: float) -> Result:
    model = source.adapter.model
    packages = tuple(model.packages)
    request = entry.Request(str(source.file), source.trains, steps, bisect, packages, time_limit)
    nothing = Checked(source.adapter.name, {})
    with tempfile.TemporaryDirectory(prefix="conformance-check-") as scratch:
        output = Output(Path(scratch) / "printed.txt")
        prepared = ({**model.environment, **source.environment}, str(source.file.parent))
        process = Process("check", entry.start, prepared, output)
        try:
            asked = pickle.dumps((entry.check, (str(source.adapter.folder), request)))
            reply = process.ask(asked, _START, time_limit)
            now = _now(Path(process.folder), str(source.file))
        finally:
            process.close()
        printed = (Path(scratch) / "printed.txt").read_text("utf-8", "replace")
    match reply:
        case Answered(answer):
            checked = pickle.loads(answer)
            if isinstance(checked, Broken):
                raise _broken(source.adapter, checked)
            lines = judge(checked)
            guessed = () if is_right(lines) else guesses(checked, read_known(source.adapter.known))
            return Result(source.file, checked, lines, guessed, printed)
        case Late(received):
            what = f"no answer within {time_limit:g} s{now}" if received else "Python did not start"
            late = _ended(Status.TIMEOUT, what, _LONGER if received else "")
            return Result(source.file, nothing, (late,), (), printed)
        case Died(code, _, _):
            what = f"the process died of {ending(code)}{now}"
            return Result(source.file, nothing, (_ended(Status.CRASHED, what),), (), printed)


def _now(folder: Path, program: str) -> str:
    """Which run the process is in, and the innermost line of the program, as a part of a sentence."""
    said = []
    with contextlib.suppress(OSError):
        said.append((folder / entry.NOW).read_text("utf-8"))
        stack = (folder / entry.STACK).read_text("utf-8", "replace")
        at = re.search(rf'File "{re.escape(program)}", line (\d+)', stack)
        said += [f"at line {at[1]}"] if at else []
    return "".join(f", {one}" for one in said)


def _ended(status: Status, what: str, *details: str) -> Line:
    return Line("error", status, Level.MUST, what, tuple(filter(None, details)))


def _broken(adapter: Adapter, broken: Broken) -> BrokenAdapterError:
    if "ModuleNotFoundError" in broken.message or "PackageNotFoundError" in broken.message:
        return BrokenAdapterError(
            f"{adapter.model.title} is not installed for {sys.executable}: {broken.message}",
            hint=f"pip install -r {adapter.folder / 'requirements.txt'}",
        )
    return BrokenAdapterError(f"the check itself failed: {broken.message}", detail=broken.traceback)
