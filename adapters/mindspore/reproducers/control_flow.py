"""In graph mode, the body of a loop in a recomputed cell is not recomputed."""

import os
import re
import tempfile
from collections import Counter
from pathlib import Path

import mindspore as ms
from mindspore import nn, ops

# The compiler writes only the graph after the last pass of its front end.
os.environ["MS_DEV_DUMP_IR_PASSES"] = "validate"
COPY = re.compile(r"^  %\d+\(.*?\) = (?:PrimFunc_)?(\w+)\(.*duplicated: Bool\(1\)", re.MULTILINE)


class Recomputed(nn.Cell):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def construct(self, x):
        return ms.recompute(self.block, x)


def run_again(cell, *inputs):
    """How often the gradient of a cell recomputes each operation, by name, from the compiled graph."""
    with tempfile.TemporaryDirectory() as folder:
        ms.set_context(mode=ms.GRAPH_MODE, save_graphs=1, save_graphs_path=folder)
        ms.value_and_grad(cell, 0)(*inputs)
        ms.set_context(save_graphs=0)
        graphs = [path.read_text("utf-8") for path in Path(folder).rglob("*_validate_*.ir")]
    assert graphs
    return Counter(COPY.findall("".join(graphs)))


def step(_, x):
    return ops.sin(x)


class Loop(nn.Cell):
    def construct(self, x):
        s = ops.ForiLoop()(0, 3, step, ops.exp(x), False)
        return ops.exp(s)


assert not run_again(Recomputed(Loop()), ops.ones((2, 4)))["Sin"]
