"""In graph mode, a recomputed cell without parameters that returns a dict does not compile."""

import os
import tempfile

import mindspore as ms
from mindspore import nn, ops


class Two(nn.Cell):
    def construct(self, x):
        a = ops.sin(ops.tanh(x))
        return {"a": a, "b": ops.exp(a)}


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.block = Two()

    def construct(self, x):
        found = ms.recompute(self.block, x)
        return found["a"] * found["b"], found


class Loss(nn.Cell):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def construct(self, x):
        z, found = self.net(x)
        return ops.sum(z), {"a": ops.stop_gradient(found["a"])}


ms.set_context(mode=ms.GRAPH_MODE)
with tempfile.TemporaryDirectory() as folder:
    # The compiler writes a file when it fails.
    os.environ["MS_OM_PATH"] = folder
    try:
        ms.value_and_grad(Loss())(ops.ones((2, 4)))
    except TypeError as error:
        assert "Func]" in str(error)
    else:
        raise AssertionError("no error is raised")
