"""MindSpore's own CPU profiler, without the parser that its public interface starts afterwards.

The recorder behind `mindspore.profiler` writes what ran, and what was allocated, as text the moment
it is stopped. That takes milliseconds, where a public trace takes more than a second.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, _c_expression, ops
from mindspore.graph.api import _pynative_executor

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
    """Wait until every operation that PyNative mode has begun has run."""
    _pynative_executor.sync()


def touch() -> None:
    """Run a small operation: the profiler then has something to write, and the memory pool has
    taken back what the operations before have let go."""
    ops.exp(Tensor(np.ones(1), ms.float32)).asnumpy()


@contextmanager
def recorded_kernels() -> Iterator[list[Kernel]]:
    """A list that holds, when the `with` has ended, every kernel that ran inside, by its start."""
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


def allocated() -> int:
    """Bytes that tensors of the memory pool occupy now, in blocks of 512."""
    with tempfile.TemporaryDirectory() as folder:
        with _recorder(folder, memory=True):
            pass
        text = (Path(folder) / "cpu_ms_memory_record_0.txt").read_text()
    head, *lines = text.split("\n")
    column = head.split(",").index("Total Allocated(Byte)")
    return int([line for line in lines if line][-1].split(",")[column])


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
