"""A region with use_reentrant=False inside another one keeps two blocks of 512 bytes of its own."""

import mindspore as ms
from mindspore import nn, ops

from tests.reasons.mindspore import kept

REASON = "A region with use_reentrant=False that is called inside another one"


class Block(nn.Cell):
    def construct(self, x):
        return ops.sin(x)


class Outer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def construct(self, x):
        for _ in range(8):
            x = ms.recompute(self.block, x, use_reentrant=False)
        return x


def differs(changed: bool) -> bool:
    """Whether eight regions in one keep 16 blocks; with the change, none is around them."""
    outer = Outer()

    def forward(x):
        return outer(x) if changed else ms.recompute(outer, x, use_reentrant=False)

    return kept(forward, ops.ones((64, 64))) % (64 * 64 * 4) == 16 * 512
