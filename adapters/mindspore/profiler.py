"""MindSpore's CPU profiler, used below its public interface.

The recorder behind `mindspore.profiler` writes kernels and allocations as text when it is stopped.
That takes milliseconds; the public interface then also runs a parser, which takes over a second.
"""

from __future__ import annotations

import gc
import re
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, _c_expression, ops
from mindspore.graph.api import _pynative_executor

ms.set_context(pynative_synchronize=True)
with suppress(SystemError):  # under NumPy 2 the first operation fails, and only the first
    Tensor(np.ones(1, np.float32)) * 0.1

#: `Default/Conv2D-op3`: a scope, the operation, and the number of its kernel.
_NUMBERED = re.compile(r"^.*/(\w+)-op\d+$")


@dataclass(frozen=True)
class Kernel:
    """One run of a kernel: the operation's name, and when it started (ns since the epoch)."""

    name: str
    start: int


def synchronize() -> None:
    """Wait until every operation that PyNative mode has dispatched has finished."""
    _pynative_executor.sync()


def forget_unfinished() -> None:
    """Drop the gradient computation that an error has left unfinished. Otherwise MindSpore would treat
    the next one as nested in it, and keep all of its tensors until the end."""
    gc.collect()
    _pynative_executor.clear_res()


def touch() -> None:
    """Run a small operation, so that the profiler has something to write and the memory pool takes back
    the blocks that earlier operations freed."""
    ops.exp(Tensor(np.ones(1), ms.float32)).asnumpy()


@contextmanager
def recorded_kernels() -> Iterator[list[Kernel]]:
    """Yield a list that is filled when the `with` ends: the kernels that ran inside, by start."""
    found: list[Kernel] = []
    with tempfile.TemporaryDirectory() as folder:
        with _recorder(folder, memory=False):
            yield found
        text = (Path(folder) / "cpu_op_execute_timestamp_0.txt").read_text()
    for line in text.splitlines():
        name, _, runs = line.split(";", 2)
        name = _NUMBERED.sub(r"\1", name)
        found += [Kernel(name, int(run.split(",")[0])) for run in runs.split()]
    found.sort(key=lambda kernel: kernel.start)


class Memory:
    """The bytes that tensors of the memory pool occupy, in blocks of 512, while recorded.

    The recorder notes the total after each allocation and each free. Whenever it is stopped it writes
    all notes since the process began; only the new ones are read. Use as a context manager.
    """

    def __init__(self) -> None:
        self._recorder: AbstractContextManager[None] | None = None
        self._read = 0  # time of the last note read, ns since the epoch
        self._latest = 0
        self._highest = 0

    def __enter__(self) -> Memory:
        self._folder = tempfile.TemporaryDirectory()
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._folder.cleanup()

    def allocated(self) -> int:
        """Bytes now."""
        self._stop()
        self._start()
        return self._latest

    def reset_peak(self) -> None:
        """Forget the peak: it is what is allocated now."""
        self._highest = self.allocated()

    def peak(self) -> int:
        """The most bytes at any time since `reset_peak`."""
        self.allocated()
        return self._highest

    def _start(self) -> None:
        self._recorder = _recorder(self._folder.name, memory=True)
        self._recorder.__enter__()

    def _stop(self) -> None:
        if self._recorder is None:
            return
        recorder, self._recorder = self._recorder, None
        recorder.__exit__(None, None, None)
        path = Path(self._folder.name) / "cpu_ms_memory_record_0.txt"
        head, *lines = path.read_text().splitlines()
        column = head.split(",").index("Total Allocated(Byte)")
        for line in reversed(lines):
            noted, found = int(line.split(",", 1)[0]), int(line.split(",")[column])
            if line is lines[-1]:
                self._latest = found
            if noted <= self._read:
                break
            self._highest = max(self._highest, found)
        self._read = int(lines[-1].split(",", 1)[0])


def synchronous(on: bool) -> None:
    """Switch PyNative mode to synchronous (`on`) or asynchronous execution. Asynchronous threads
    busy-wait, and which tensors are alive at a time depends on their timing.

    It can be switched only if it was on when the process ran its first operation.
    """
    synchronize()
    ms.set_context(pynative_synchronize=on)


@contextmanager
def _recorder(folder: str, *, memory: bool) -> Iterator[None]:
    """Let the profiler record, and write into the folder when the `with` ends."""
    profiler = _c_expression.Profiler.get_instance("CPU")
    synchronize()
    profiler.init(folder)
    profiler.step_profiling_enable(True)
    profiler.enable_op_time()
    if memory:
        profiler.enable_profile_memory()
    try:
        yield
    finally:
        touch()
        profiler.stop()
