"""Each reason of a known deviation holds: the difference appears, and goes away with what is blamed."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from conformance.drivers.adapter import read_adapter
from conformance.judge.known import read
from tests.reasons.run import MARK

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
#: The module whose presence says that an adapter's framework is installed.
MODULES = {
    **{name: name for name in ("autograd", "jax", "keras", "mindspore", "paddle", "torch")},
    "mlx": "mlx",
    "tf": "tensorflow",
}
#: Seconds for all programs of a framework.
LIMIT = 1200


@dataclass(frozen=True)
class Program:
    """A file: what the reason that it shows begins with, and the environment that it needs."""

    file: Path
    reason: str
    environment: Mapping[str, str]

    @property
    def adapter(self) -> str:
        return self.file.parent.name

    @property
    def id(self) -> str:
        return f"{self.adapter}/{self.file.stem}"


def _program(file: Path) -> Program:
    found: dict[str, object] = {}
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in ("REASON", "ENVIRONMENT"):
                found[name] = ast.literal_eval(node.value)
    assert isinstance(found.get("REASON"), str), f"{file} names no REASON"
    environment = found.get("ENVIRONMENT", {})
    assert isinstance(environment, dict)
    return Program(file, str(found["REASON"]), environment)


PROGRAMS = [_program(f) for f in sorted(FOLDER.glob("*/*.py")) if f.stem != "__init__"]


@cache
def _reasons(adapter: str) -> set[str]:
    entries = read(read_adapter(ROOT / "adapters" / adapter).known, unfinished=True)
    return {" ".join(entry.reason.split()) for entry in entries}


@cache
def _told(
    adapter: str, environment: tuple[tuple[str, str], ...]
) -> Mapping[str, Mapping[str, object]]:
    """What all programs of a framework that need one environment tell, by file."""
    files = [
        str(p.file)
        for p in PROGRAMS
        if p.adapter == adapter and tuple(sorted(p.environment.items())) == environment
    ]
    given = read_adapter(ROOT / "adapters" / adapter).model.environment
    done = subprocess.run(
        [sys.executable, "-m", "tests.reasons.run", *files],
        cwd=ROOT,
        env={**os.environ, **given, **dict(environment)},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=LIMIT,
        check=False,
    )
    lines = [line.removeprefix(MARK) for line in done.stdout.splitlines() if line.startswith(MARK)]
    told = {found["file"]: found for found in map(json.loads, lines)}
    end = f"the process ended with {done.returncode} before it:\n{done.stderr[-2000:]}"
    return {file: told.get(file, {"appears": end, "stays": end}) for file in files}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.id)
def test_a_program_shows_a_reason_on_record(program: Program) -> None:
    found = [reason for reason in _reasons(program.adapter) if reason.startswith(program.reason)]
    assert found, f"no reason in adapters/{program.adapter}/known.yaml begins so"


# The reference is left out: it is the suite's own, and no program can show it without the suite.
@pytest.mark.parametrize("adapter", sorted(MODULES))
def test_each_reason_on_record_is_shown_by_a_program(adapter: str) -> None:
    begins = tuple(program.reason for program in PROGRAMS if program.adapter == adapter)
    without = sorted(reason for reason in _reasons(adapter) if not reason.startswith(begins))
    assert not without, f"no program in tests/reasons/{adapter} shows these"


@pytest.mark.parametrize(
    "adapter", sorted(file.parent.name for file in ROOT.glob("adapters/*/adapter.yaml"))
)
def test_an_adapter_with_known_deviations_has_programs_of_its_reasons(adapter: str) -> None:
    assert adapter in {*MODULES, "reference"} or not _reasons(adapter)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.id)
def test_a_difference_appears_and_goes_away_with_what_is_blamed(program: Program) -> None:
    if importlib.util.find_spec(MODULES[program.adapter]) is None:
        pytest.skip(f"{MODULES[program.adapter]} is not installed here")
    told = _told(program.adapter, tuple(sorted(program.environment.items())))[str(program.file)]
    assert told["appears"] is True, "the difference does not appear"
    assert told["stays"] is False, "the difference stays"
