"""Each cause of a known deviation has a program that shows it, and each program does."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest
import yaml

from conformance.drivers.adapter import Adapter, all_adapters
from conformance.judge.known import in_release, read

ROOT = Path(__file__).parents[1]
ADAPTERS = {adapter.name: adapter for adapter in all_adapters(ROOT / "adapters")}
PROGRAMS = sorted(ROOT.glob("adapters/*/reproducers/*.py"))
#: The module whose presence says that a framework is installed, where it has not the adapter's name.
MODULES = {"tf": "tensorflow"}
#: Variables that a program sets for itself.
SETS = re.compile(r'^os\.environ\["(\w+)"\] = "(.*)"$', re.MULTILINE)
#: Runs programs, one after the other, in one process: `python -c RUN FILE...`. Importing a framework is
#: most of what a program costs.
RUN = """
import gc, json, runpy, sys, traceback

for file in sys.argv[1:]:
    gc.collect()  # garbage of the programs before would go while this one reads memory
    try:
        runpy.run_path(file, run_name="__main__")
        error = ""
    except Exception:
        error = traceback.format_exc()
    print("\\nran: " + json.dumps([file, error]), flush=True)
"""
#: Seconds for all programs of a framework.
LIMIT = 1200


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def name(file: Path) -> str:
    return f"{file.parents[1].name}/{file.stem}"


@cache
def errors(adapter: str, variables: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """What each program of an adapter raised, of those that set these variables; empty for none."""
    files = [
        str(file)
        for file in PROGRAMS
        if file.parents[1].name == adapter and variables == variables_of(file)
    ]
    return ends(files)


def ends(files: Sequence[str]) -> Mapping[str, str]:
    """How each program ends, in one process: its error, empty where there is none."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *files],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=LIMIT,
        check=False,
    )
    ran = [line.removeprefix("ran: ") for line in done.stdout.splitlines()]
    found = dict(json.loads(line) for line in ran if line.startswith('["'))
    end = f"the process ended with {done.returncode} before it:\n{done.stderr[-2000:]}"
    return {file: found.get(file, end) for file in files}


def variables_of(file: Path) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(SETS.findall(file.read_text("utf-8"))))


@pytest.mark.parametrize("adapter", ADAPTERS.values(), ids=lambda adapter: f"{adapter.name}/")
def test_each_cause_has_a_program(adapter: Adapter) -> None:
    entries = read(adapter.known)
    causes = {entry.cause for entry in entries}
    # What a program of `programs` shows needs no other one.
    shown = {e.cause for e in entries if any(c.startswith("programs/") for c in e.cases)}
    folder = adapter.folder / "reproducers"
    file = folder / "absent.yaml"
    absent = yaml.safe_load(file.read_text("utf-8")) if file.is_file() else {}
    assert all(isinstance(why, str) and why for why in absent.values())
    programs = {program.stem for program in folder.glob("*.py")}
    assert programs.isdisjoint(absent)
    assert causes - shown <= programs | set(absent) <= causes
    assert all(adapter.reproducer(cause) for cause in programs)
    assert adapter.reproducer("") is None


@pytest.mark.parametrize("file", PROGRAMS, ids=name)
def test_a_program_needs_its_framework_alone(file: Path) -> None:
    tree = ast.parse(file.read_text("utf-8"))
    words = ast.get_docstring(tree) or ""
    assert re.fullmatch(r"[^\n]+\.", words)
    modules = {module.partition(".")[0] for node in ast.walk(tree) for module in imported(node)}
    assert modules.isdisjoint({"conformance", "tests", "adapters", ""})
    # Beside a program, in the folder that `python FILE` searches first, no module is hidden.
    assert file.stem not in sys.stdlib_module_names | modules


@pytest.mark.parametrize("file", PROGRAMS, ids=name)
def test_a_program_shows_what_goes_wrong(file: Path) -> None:
    adapter = file.parents[1].name
    module = MODULES.get(adapter, adapter)
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed here")
    own = ADAPTERS[adapter]
    entries = [entry for entry in read(own.known) if entry.cause == file.stem]
    error = errors(adapter, variables_of(file))[str(file)]
    if in_release(entries, own.release, own.device):
        # On a busy machine what is measured may be cut short: once more, alone.
        error = error and ends([str(file)])[str(file)]
        assert not error, f"`python {file}` does not show it any more:\n{error}"
    else:
        assert error, (
            f"{own.release} on {own.device} is said to be without it, but `python {file}` shows it"
        )
