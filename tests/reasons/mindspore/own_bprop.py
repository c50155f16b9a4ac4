"""In graph mode nothing that a cell's own bprop reads runs again, though the cell is recomputed."""

from mindspore import nn, ops

from tests.reasons.mindspore import Recomputed, run_again

REASON = "The operations of a cell's own bprop"


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


def differs(changed: bool) -> bool:
    """Whether nothing runs again; with the change, the sine has its usual gradient."""
    sine = ops.Sin() if changed else Sine()
    return not run_again(Recomputed(Block(sine)), ops.ones((2, 4)))
