"""In graph mode a recomputed cell's output runs again where a larger recomputed cell calls it."""

from mindspore import nn, ops

from tests.reasons.mindspore import run_again

REASON = "The same cells are called alone and inside larger ones"


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


def differs(changed: bool) -> bool:
    """Whether the inner cell's output runs again; with the change, it alone is configured."""
    net = Net()
    (net.inner if changed else net.outer).recompute()
    return "Exp" in run_again(net, ops.ones((2, 4)))
