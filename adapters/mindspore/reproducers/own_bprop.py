"""In graph mode, what a cell's own `bprop` reads is not recomputed."""

import os
import re
import tempfile
from collections import Counter
from pathlib import Path

import mindspore as ms
from mindspore import nn, ops

# Of all passes, the compiler writes the graph after the last one of the frontend alone.
os.environ["MS_DEV_DUMP_IR_PASSES"] = "validate"
COPY = re.compile(
    "^  %\\d+\\(.*?\\) = (?:PrimFunc_)?(\\w+)\\(.*duplicated: Bool\\(1\\)", re.MULTILINE
)


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


class Sine(nn.Cell):
    def construct(self, x):
        return ops.sin(x)

    def bprop(self, x, out, dout):
        return (ops.cos(x) * dout,)


class Block(nn.Cell):
    def __init__(self, sine):
        super().__init__()
        self.sine = sine

    def construct(self, x):
        return ops.exp(self.sine(x * x))


sine = Sine()
assert not run_again(Recomputed(Block(sine)), ops.ones((2, 4)))
