"""With `use_reentrant=True`, a recomputed region keeps its tensors until the inner backward ends."""

import tempfile
import time
from pathlib import Path

import mindspore as ms
from mindspore import nn, ops


def highest(forward, x):
    """The peak of MindSpore's pool in backward, in bytes beyond those before forward."""
    _, backward_notes = _noted(forward, x)
    return max(backward_notes)


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


UNIT = 256 * 64 * 4


class Halves(nn.Cell):
    """2 ** depth sines. The first half is recomputed, and so is the first half of each half."""

    def __init__(self, depth, reentrant):
        super().__init__()
        self.depth, self.reentrant = depth, reentrant
        if depth:
            self.first = Halves(depth - 1, reentrant)
            self.second = Halves(depth - 1, reentrant)

    def construct(self, x):
        if not self.depth:
            return ops.sin(x)
        return self.second(ms.recompute(self.first, x, use_reentrant=self.reentrant))


peaks = [highest(Halves(depth, True), ops.ones((256, 64))) for depth in (4, 5)]
assert round((peaks[1] - peaks[0]) / UNIT) >= 2
