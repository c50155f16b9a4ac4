"""In graph mode what the gradient of an unused output reads is run again."""

from mindspore import nn, ops

from tests.reasons.mindspore import Recomputed, run_again

REASON = "The unused output gets a gradient of zeros"


class Two(nn.Cell):
    def __init__(self, stopped):
        super().__init__()
        self.stopped = stopped

    def construct(self, x):
        a = ops.sin(ops.tanh(x))
        return a, ops.cos(ops.exp(ops.stop_gradient(a) if self.stopped else a))


class Net(nn.Cell):
    def __init__(self, block):
        super().__init__()
        self.block = Recomputed(block)

    def construct(self, x):
        a, b = self.block(x)
        return ops.sum(a * a), ops.stop_gradient(b)


def differs(changed: bool) -> bool:
    """Whether what the output's gradient reads runs again; with the change, that gradient is stopped
    in the region."""
    return bool(run_again(Net(Two(changed)), ops.ones((2, 4)))["Exp"])
