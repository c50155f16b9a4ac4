"""The rerun of a reentrant region keeps its tensors until the backward inside it has ended."""

import mindspore as ms
from mindspore import nn, ops

from tests.reasons.mindspore import highest

REASON = "The rerun of each region keeps its tensors until the backward inside it has ended"
UNIT = 256 * 64 * 4


class Halves(nn.Cell):
    """2 ** depth sines: the first half is recomputed, and is made alike."""

    def __init__(self, depth, reentrant):
        super().__init__()
        self.depth, self.reentrant = depth, reentrant
        if depth:
            self.first = Halves(depth - 1, reentrant)
            self.second = Halves(depth - 1, reentrant)

    def construct(self, x):
        if not self.depth:
            return ops.sin(x)
        return self.second(ms.recompute(self.first, x, use_reentrant=self.reentrant))


def differs(changed: bool) -> bool:
    """Whether a level more takes two activations more; with the change, no region is reentrant."""
    peaks = [highest(Halves(depth, not changed), ops.ones((256, 64))) for depth in (4, 5)]
    return round((peaks[1] - peaks[0]) / UNIT) >= 2
