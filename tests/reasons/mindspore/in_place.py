"""In graph mode an operation that writes over its argument is not recomputed, nor what follows it."""

from mindspore import nn, ops

from tests.reasons.mindspore import Recomputed, run_again

REASON = "An operation that writes over its argument is not recomputed"


class InPlace(nn.Cell):
    def construct(self, x):
        h = x * x
        return ops.exp(ops.sin(h.add_(0.5)))


class Anew(nn.Cell):
    def construct(self, x):
        h = x * x
        return ops.exp(ops.sin(h.add(0.5)))


def differs(changed: bool) -> bool:
    """Whether neither the sine nor the addition runs again; with the change, it gives a new tensor."""
    return not run_again(Recomputed(Anew() if changed else InPlace()), ops.ones((2, 4)))
