"""In graph mode, a cell is recomputed in a direct call if a larger recomputed cell contains it."""

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


def run_again(cell, *inputs):
    """How often the gradient of a cell recomputes each operation, by name, from the compiled graph."""
    with tempfile.TemporaryDirectory() as folder:
        ms.set_context(mode=ms.GRAPH_MODE, save_graphs=1, save_graphs_path=folder)
        ms.value_and_grad(cell, 0)(*inputs)
        ms.set_context(save_graphs=0)
        graphs = [path.read_text("utf-8") for path in Path(folder).rglob("*_validate_*.ir")]
    assert graphs
    return Counter(COPY.findall("".join(graphs)))


class Inner(nn.Cell):
    def construct(self, x):
        return ops.exp(ops.sin(x))


class Outer(nn.Cell):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def construct(self, x):
        return ops.tanh(self.inner(x))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.outer = Outer(self.inner)

    def construct(self, x):
        return self.outer(self.inner(x))


net = Net()
net.outer.recompute()
assert "Exp" in run_again(net, ops.ones((2, 4)))
