"""MindSpore's CPU profiler, used below its public interface.

The recorder behind `mindspore.profiler` writes kernels as text when it is stopped. That takes
milliseconds; the public interface then also runs a parser, which takes over a second.
"""

from __future__ import annotations

import gc
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, _c_expression, ops
from mindspore.common.api import _pynative_executor

ms.set_context(pynative_synchronize=True)

#: `Default/Conv2D-op3`: a scope, the operation, and the number of its kernel.
_NUMBERED = re.compile(r"^.*/(\w+)-op\d+$")


@dataclass(frozen=True)
class Kernel:
    """One run of a kernel: the operation's name, and when it started (ns since the epoch)."""

    name: str
    start: int


def begin() -> None:
    """Run the first operation of the process."""
    with suppress(SystemError):  # under NumPy 2 it fails, and only the first
        Tensor(np.ones(1, np.float32)) * 0.1


def synchronize() -> None:
    """Wait until every operation that PyNative mode has dispatched has finished."""
    _pynative_executor.sync()


def forget_unfinished() -> None:
    """Drop the gradient computation that an error has left unfinished. Otherwise MindSpore would treat
    the next one as nested in it, and keep all of its tensors until the end."""
    gc.collect()
    _pynative_executor.clear_res()


def touch() -> None:
    """Run a small operation, so that the recorder has something to write and the memory pool takes back
    the blocks that earlier operations freed."""
    ops.exp(Tensor(np.ones(1), ms.float32)).asnumpy()


@contextmanager
def recorded_kernels() -> Iterator[list[Kernel]]:
    """Yield a list that is filled when the `with` ends: the kernels that ran inside, by start."""
    kernels: list[Kernel] = []
    recorder = _c_expression.Profiler.get_instance("CPU")
    with tempfile.TemporaryDirectory() as folder:
        synchronize()
        recorder.init(folder)
        recorder.step_profiling_enable(True)
        recorder.enable_op_time()
        try:
            yield kernels
        finally:
            touch()
            recorder.stop()
        (file,) = Path(folder).glob("cpu_op_execute_timestamp_*.txt")  # with the number of the rank
        text = file.read_text()
    for line in text.splitlines():
        name, _, runs = line.split(";", 2)
        name = _NUMBERED.sub(r"\1", name)
        kernels += [Kernel(name, int(run.split(",")[0])) for run in runs.split()]
    kernels.sort(key=lambda kernel: kernel.start)


def synchronous(on: bool) -> None:
    """Switch PyNative mode to synchronous (`on`) or asynchronous execution. Asynchronous threads
    busy-wait, and which tensors are alive at a time depends on their timing.

    It can be switched only if it was on when the process ran its first operation.
    """
    synchronize()
    ms.set_context(pynative_synchronize=on)
