"""In graph mode, outputs that a recomputed cell returns in a dict are recomputed."""

import os
import re
import tempfile
from collections import Counter
from pathlib import Path

import mindspore as ms
from mindspore import Parameter, nn, ops

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


class Two(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.w = w

    def construct(self, x):
        a = ops.sin(ops.matmul(x, self.w))
        return {"a": a, "b": ops.exp(a)}


class Net(nn.Cell):
    def __init__(self, block):
        super().__init__()
        self.block = Recomputed(block)

    def construct(self, x):
        found = self.block(x)
        a, b = found["a"], found["b"]
        return ops.sum(a * b), {"b": ops.stop_gradient(b)}


w = Parameter(ops.ones((4, 4)), name="w")
net = Net(Two(w))
assert run_again(net, ops.ones((2, 4)))["Sin"]
