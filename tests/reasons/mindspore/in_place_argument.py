"""In graph mode what makes a tensor that is written over is not recomputed, nor what writes over it."""

from mindspore import nn, ops

from tests.reasons.mindspore import Recomputed, run_again

REASON = "Neither an operation that writes over its argument"


class InPlace(nn.Cell):
    def construct(self, x):
        h = x * x
        return ops.sin(h) + ops.exp(h.add_(0.5))


class Anew(nn.Cell):
    def construct(self, x):
        h = x * x
        return ops.sin(h) + ops.exp(h.add(0.5))


def differs(changed: bool) -> bool:
    """Whether the product does not run again; with the change, a new tensor is made."""
    again = run_again(Recomputed(Anew() if changed else InPlace()), ops.ones((2, 4)))
    return not any("Mul" in name for name in again)
