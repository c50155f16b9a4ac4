"""Each step leaves blocks of 512 bytes in the memory pool, and with recompute more of them."""

import gc
import tempfile
from pathlib import Path

import mindspore as ms
from mindspore import nn, ops

STEPS = 8


class Block(nn.Cell):
    def construct(self, x):
        return ops.exp(ops.sin(x))


def growth(step):
    """How many bytes of the pool stay allocated after some steps."""
    ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)
    for _ in range(STEPS):
        step()
    gc.collect()
    with tempfile.TemporaryDirectory() as folder:
        told = ms.profiler.tensorboard_trace_handler(folder)
        activities = [ms.profiler.ProfilerActivity.CPU]
        with ms.profiler.profile(activities=activities, profile_memory=True, on_trace_ready=told):
            for _ in range(STEPS):
                step()
                gc.collect()
            ops.exp(ops.ones(1)).asnumpy()
        (record,) = Path(folder).rglob("cpu_ms_memory_record_0.txt")
        head, *lines = (line.split(",") for line in record.read_text("utf-8").splitlines())
    column = head.index("Total Allocated(Byte)")
    return int(lines[-1][column]) - int(lines[0][column])


block, x = Block(), ops.ones((3, 4))
plain = growth(lambda: ms.grad(block)(x).asnumpy())
recomputed = growth(
    lambda: ms.grad(lambda x: ms.recompute(block, x, use_reentrant=True))(x).asnumpy()
)
assert recomputed > plain > 0
