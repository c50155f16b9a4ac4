"""What MindSpore's compiler has made of a cell that is recomputed."""

import os
import re
import tempfile
import time
from collections import Counter
from pathlib import Path

import mindspore as ms
from mindspore import nn, ops

# Of all passes, the compiler writes the graph after the last one of the frontend alone.
os.environ["MS_DEV_DUMP_IR_PASSES"] = "validate"
COPY = re.compile(r"^  %\d+\(.*?\) = (?:PrimFunc_)?(\w+)\(.*duplicated: Bool\(1\)", re.MULTILINE)


class Recomputed(nn.Cell):
    """A cell that is called by `mindspore.recompute`."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def construct(self, x):
        return ms.recompute(self.block, x)


def run_again(cell, *inputs, weights=None):
    """How many operations of each name the gradient of a cell runs again, in graph mode.

    What the cell gives is put out, too: a compiler leaves out what nobody asks for.
    """
    mode = ms.get_context("mode")
    with tempfile.TemporaryDirectory() as folder:
        ms.set_context(mode=ms.GRAPH_MODE, save_graphs=1, save_graphs_path=folder)
        try:
            ms.value_and_grad(cell, 0, weights)(*inputs)
        finally:
            ms.set_context(mode=mode, save_graphs=0)
        texts = [path.read_text("utf-8") for path in Path(folder).rglob("*_validate_*.ir")]
    if not texts:
        raise RuntimeError("the compiler has written no graph")
    return Counter(COPY.findall("".join(texts)))


def kept(forward, x):
    """The bytes of MindSpore's pool that a forward keeps until backward."""
    forward_notes, _ = _noted(forward, x)
    return forward_notes[-1]


def highest(forward, x):
    """The most bytes of MindSpore's pool at any time of a backward, beyond those before forward."""
    _, backward_notes = _noted(forward, x)
    return max(backward_notes)


def _noted(forward, x):
    """What the public profiler notes of the pool in forward and in backward: bytes in use after each
    block that is taken or given back, beyond those before forward.

    The first of two gradients fills what stays for all that follow.
    """
    ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)
    small = ops.ones(1)

    def settle():
        ops.exp(small).asnumpy()  # the pool then has back what was let go
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
