"""Each matrix product keeps two extra blocks of 512 bytes until backward."""

import tempfile
import time
from pathlib import Path

import mindspore as ms
from mindspore import ops


def kept(forward, x):
    """The bytes of MindSpore's pool that forward keeps until backward."""
    forward_notes, _ = _noted(forward, x)
    return forward_notes[-1]


def _noted(forward, x):
    """Bytes in use in MindSpore's pool beyond those before forward, after each change, in forward and
    in backward. An earlier gradient allocates the memory that is never freed."""
    ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)
    small = ops.ones(1)

    def settle():
        ops.exp(small).asnumpy()
        return time.time_ns()

    _, backward = ms.vjp(forward, x)
    backward(x)
    with tempfile.TemporaryDirectory() as folder:
        told = ms.profiler.tensorboard_trace_handler(folder)
        activities = [ms.profiler.ProfilerActivity.CPU]
        with ms.profiler.profile(activities=activities, profile_memory=True, on_trace_ready=told):
            before = settle()
            _, backward = ms.vjp(forward, x)
            middle = settle()
            backward(x)
            after = settle()
        (record,) = Path(folder).rglob("cpu_ms_memory_record_0.txt")
        head, *lines = (line.split(",") for line in record.read_text("utf-8").splitlines())
    column = head.index("Total Allocated(Byte)")
    notes = [(int(line[0]), int(line[column])) for line in lines]
    start = [found for when, found in notes if when < before][-1]

    def within(first, last):
        return [found - start for when, found in notes if first <= when < last]

    return within(before, middle), within(middle, after)


weight = ops.ones((64, 64))


def forward(x):
    for _ in range(8):
        x = ops.matmul(x, weight)
    return x


assert kept(forward, ops.ones((64, 64))) % (64 * 64 * 4) == 16 * 512
