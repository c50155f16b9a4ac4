"""`conformance` and pytest as processes of their own, many times over.

Most of what a short command costs is what it imports. A helper imports it once and forks for each
command: what a command does to its process stays there, as if the process had been started for it.
Worker processes of a command are forked, too, from a server that has imported what every worker does.
Only Python's hash seed is the helper's; `fresh` starts all processes anew, for what may depend on it.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.forked_workers import fork_all_in_a_child, start_server

ROOT = Path(__file__).parent.parent
#: Seconds that a command may take.
LIMIT = 240
#: As a fresh process would be told to run the program.
PROGRAMS = {
    "conformance": ("-c", "from conformance.cli import main; main()"),
    "pytest": ("-m", "pytest"),
}
#: What a command or a session imports. Hypothesis' plugin imports all of it at the end of each.
EARLY = (
    *("conformance.cli.app", "conformance.run.session", "conformance.run.pytest_plugin"),
    *("hypothesis", "_hypothesis_pytestplugin", "xdist.plugin", "xdist.dsession"),
)
#: What importing in the helper rather than by pytest itself is warned of.
IMPORTED = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"


def conformance(
    folder: Path, *arguments: str, fresh: bool = False
) -> subprocess.CompletedProcess[str]:
    """`conformance ARGUMENTS` in a folder."""
    return _run("conformance", folder, arguments, fresh)


def pytest_session(
    folder: Path, *arguments: str, fresh: bool = False
) -> subprocess.CompletedProcess[str]:
    """`pytest ARGUMENTS` in a folder."""
    return _run("pytest", folder, ("-W", IMPORTED, *arguments), fresh)


def _run(
    program: str, folder: Path, arguments: tuple[str, ...], fresh: bool
) -> subprocess.CompletedProcess[str]:
    environment, helper = _environment(), _helper()
    command = [sys.executable, *PROGRAMS[program], *arguments]
    with tempfile.TemporaryDirectory() as kept:
        out, err = Path(kept, "out"), Path(kept, "err")
        if fresh:
            with out.open("wb") as to, err.open("wb") as errors:
                code = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=to,
                    stderr=errors,
                    timeout=LIMIT,
                    cwd=folder,
                    env=environment,
                ).returncode
        else:
            asked = {
                "program": program,
                "arguments": arguments,
                "folder": str(folder),
                "environment": environment,
                "out": str(out),
                "err": str(err),
            }
            assert helper.stdin is not None
            assert helper.stdout is not None
            helper.stdin.write(json.dumps(asked) + "\n")
            helper.stdin.flush()
            code = int(helper.stdout.readline())
            if code == -signal.SIGALRM:
                raise subprocess.TimeoutExpired(command, LIMIT, out.read_text(), err.read_text())
        return subprocess.CompletedProcess(command, code, out.read_text(), err.read_text())


def _environment() -> dict[str, str]:
    """That of this process; but where no bytecode may be kept, it is in a folder for as long as these
    tests run, or each of the many processes would compile the same modules again."""
    if not sys.dont_write_bytecode:
        return dict(os.environ)
    given = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**given, "PYTHONPYCACHEPREFIX": _bytecode()}


@cache
def _bytecode() -> str:
    """The folder of bytecode; the helper takes it away, which ends last however this process ends."""
    return tempfile.mkdtemp(prefix="conformance-tests-bytecode-")


@cache
def _helper() -> subprocess.Popen[str]:
    """The process that forks, started on first use and ended with this one."""
    # The tests' folder is not where a command would find `conformance`.
    start = "import sys; sys.path.insert(0, sys.argv[1]); from tests.commands import serve; "
    kept = [_bytecode()] if sys.dont_write_bytecode else []
    made = subprocess.Popen(
        [sys.executable, "-c", f"{start} del sys.path[0]; serve()", str(ROOT), *kept],
        cwd=tempfile.gettempdir(),
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    # Closes its input, which ends it, and waits for it.
    atexit.register(made.communicate)
    return made


def serve() -> None:
    """In the helper: fork for each line of standard input, and write how each child ended."""
    for name in [*EARLY, *(f"_pytest.{plugin}" for plugin in default_plugins())]:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # pytest collects at its end, and would look through all of this
    start_server()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(json.loads(line))
            return  # and end as any process does
        _, status = os.waitpid(child, 0)
        os.write(1, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    for folder in sys.argv[2:]:
        shutil.rmtree(folder, ignore_errors=True)


def default_plugins() -> tuple[str, ...]:
    """The modules that pytest loads for itself."""
    from _pytest.config import default_plugins as found

    return found


def _become(asked: Mapping[str, object]) -> None:
    """In a child of the helper: run the program that was asked for."""
    signal.alarm(LIMIT)
    os.environ.clear()
    os.environ.update(asked["environment"])  # type: ignore[call-overload]
    os.chdir(str(asked["folder"]))
    for number, (name, flags) in enumerate(
        [
            (os.devnull, os.O_RDONLY),
            (str(asked["out"]), os.O_WRONLY | os.O_CREAT),
            (str(asked["err"]), os.O_WRONLY | os.O_CREAT),
        ]
    ):
        opened = os.open(name, flags)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = ["-c", *asked["arguments"]]  # type: ignore[misc]
    fork_all_in_a_child()
    if asked["program"] == "conformance":
        from conformance.cli import main

        main()
    else:
        import pytest

        sys.exit(pytest.console_main())
