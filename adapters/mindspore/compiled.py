"""A process apart, in which MindSpore's compiler writes down its graphs.

The compiler does so only where the environment says so from the start, and then PyNative mode keeps
tensors longer than it otherwise would: no run that is judged may happen there.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from conformance.adapter import load_file
from conformance.observation import Execution
from conformance.program import Program
from conformance.worker.observer import load_program
from conformance.worker.trace import Trace

_here = Path(__file__).parent
_PR_SET_PDEATHSIG = 1


class Compiler:
    """Asks the process apart; starts it on first use, and again where it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: Connection | None = None

    def executions(self, program: Program, path: str) -> tuple[Execution, ...]:
        """How often each region and statement runs, in `plain` or `recomputed`.

        Raises `RuntimeError` where the process dies, or says what it raised itself.
        """
        pipe = self._running()
        try:
            pipe.send((program, path))
            found = pipe.recv()
        except (EOFError, OSError) as error:
            assert self._process is not None
            code, self._process = self._process.wait(), None
            raise RuntimeError(f"the process that compiles graphs died ({code})") from error
        if isinstance(found, str):
            raise RuntimeError(f"graphs of {program.case}: {found}")
        return tuple(found)

    def _running(self) -> Connection:
        if self._process is None or self._answers is None:
            self._answers, theirs = Pipe()
            command = [sys.executable, __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
            theirs.close()
        return self._answers


def serve(pipe: Connection) -> None:
    """Answer until the other side has gone: executions, or a sentence where that fails."""
    graphs: Any = load_file(_here / "graphs.py", "conformance_adapter_mindspore_graphs")
    with tempfile.TemporaryDirectory(prefix="graphs-") as folder:
        written = graphs.Graphs(Path(folder) / "written")
        os.environ.update(written.environment)
        _serve(pipe, graphs, written)


def _serve(pipe: Connection, graphs: Any, written: Any) -> None:
    flows: Any = load_file(_here / "flow.py", "conformance_adapter_mindspore_flow")
    load_file(_here / "profiler.py", "conformance_adapter_mindspore_profiler")
    while True:
        try:
            program, path = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(_counted(program, path, graphs, written, flows))
        except Exception as error:
            pipe.send(f"{type(error).__name__}: {error}")


def _counted(
    program: Program, path: str, graphs: Any, written: Any, flows: Any
) -> tuple[Execution, ...]:
    module = load_program(program)
    calls: list[str] = []
    written.clear()  # what a program before has left
    try:
        with Trace(program, on_phase=lambda label, _: calls.append(label)).active():
            module.run(getattr(module, path))
        texts = written.read(program.file)
    finally:
        written.clear()
    flow, inputs = _followed(program, module, flows)
    found: tuple[Execution, ...] = graphs.executions(texts, flow, inputs, calls.count("forward"))
    return found


_FLOWS: dict[tuple[str, str], Any] = {}


def _followed(program: Program, module: Any, flows: Any) -> Any:
    """The flow of a program's plain network: the same for both of its runs, which come in a row."""
    key = program.file, program.text
    if key not in _FLOWS:
        _FLOWS.clear()
        _FLOWS[key] = flows.follow(program, module)
    return _FLOWS[key]


if __name__ == "__main__":
    # A compilation that hangs must not outlive the worker that asked for it.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    serve(Connection(int(sys.argv[1])))
