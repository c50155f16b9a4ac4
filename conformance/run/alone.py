"""A program run by itself, as somebody runs it who has the framework and nothing of ours."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

#: Seconds.
LIMIT = 300.0
#: Lines of its last output that are kept.
_LINES = 12
#: Where packages and temporary files lie on this machine.
_LOCAL = re.compile(r"(?:/[^\s/\"']+)*/(?:site-packages|tmp[a-z0-9_]{8})/")


@dataclass(frozen=True)
class ProgramRun:
    """How a program ended: its exit code, and what it printed, with the error in its last line."""

    code: int
    output: str

    @property
    def asserted(self) -> bool:
        """Whether an assertion of the program ended it."""
        return "AssertionError" in self.output

    @property
    def is_program(self) -> bool:
        """Whether it ran as what it is: nothing was missing in it, and nothing that it imports."""
        return not re.search(
            r"^(Syntax|Name|Import|ModuleNotFound)Error\b", self.output, re.MULTILINE
        )


def run_alone(
    text: str,
    environment: Mapping[str, str],
    beside: Iterable[Path] = (),
    limit: float = LIMIT,
) -> ProgramRun:
    """Run a program in a process and a folder of its own, with nothing of this process's search path.

    `beside` are files to copy next to it, `limit` are seconds. Raises nothing but `OSError`.
    """
    with tempfile.TemporaryDirectory(prefix="conformance-bug-") as folder:
        file = Path(folder) / "report.py"
        file.write_text(text, "utf-8")
        for other in beside:
            shutil.copy(other, folder)
        inherited = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        try:
            completed = subprocess.run(
                [sys.executable, str(file)],
                cwd=folder,
                env={**inherited, **environment},
                capture_output=True,
                text=True,
                errors="replace",
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return ProgramRun(-1, f"no end within {limit:g} s")
    lines = completed.stdout.strip().splitlines()[-_LINES:]
    if completed.returncode < 0:
        name = signal.Signals(-completed.returncode).name
        lines.append(f"the process ends with {name}")
    elif completed.returncode:
        lines += _error(completed.stderr)
    output = _LOCAL.sub("", "\n".join(lines).replace(folder + "/", ""))
    return ProgramRun(completed.returncode, output)


def _error(text: str) -> list[str]:
    """The exception under the last traceback, a few lines of it."""
    lines = text.rstrip().splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith("Traceback")]
    after = lines[starts[-1] + 1 :] if starts else lines
    error = next((n for n, line in enumerate(after) if line[:1].strip()), 0)
    return after[error : error + _LINES]
