"""Compiling the gradient of a recomputed cell with a `while` on a tensor's value crashes the process."""

import subprocess
import sys

import mindspore as ms
from mindspore import nn, ops


class Doubled(nn.Cell):
    def construct(self, x):
        while x.sum() < 20:
            x = x * 2
        return ops.exp(x)


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.block = Doubled()

    def construct(self, x):
        return ms.recompute(self.block, x)


if "child" in sys.argv:
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.grad(Net())(ops.ones((2, 4)))
else:
    child = subprocess.run([sys.executable, __file__, "child"], capture_output=True, check=False)
    assert child.returncode < 0
