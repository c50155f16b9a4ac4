"""In graph mode, a recomputed cell without parameters that returns a dict does not compile."""

import contextlib
import tempfile

import mindspore as ms
from mindspore import nn, ops


class Two(nn.Cell):
    def construct(self, x):
        a = ops.sin(ops.tanh(x))
        return {"a": a, "b": ops.exp(a)}


class Net(nn.Cell):
    def __init__(self, recompute):
        super().__init__()
        self.block, self.recomputed = Two(), recompute

    def construct(self, x):
        found = ms.recompute(self.block, x) if self.recomputed else self.block(x)
        return found["a"] * found["b"], found


class Loss(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def construct(self, x):
        z, found = self.net(x)
        return ops.sum(z), {"a": ops.stop_gradient(found["a"])}


def shows():
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        # The compiler leaves a file where it fails.
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            ms.value_and_grad(Loss(Net(True)))(ops.ones((2, 4)))
    except TypeError as error:
        return "Func]" in str(error)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    return False


assert shows()
