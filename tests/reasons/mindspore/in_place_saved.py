"""A tensor that was saved and is then written over is handed out changed by the rerun's hooks."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops

REASON = "What a rerun has saved is handed out through hooks"


class Block(nn.Cell):
    def construct(self, x):
        h = 2 * x
        return ops.sin(h) * ops.exp(h.copy_(h + 0.5))


def differs(changed: bool) -> bool:
    """Whether the gradient is silently another one; with the change, nothing is recomputed."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    block = Block()

    def forward(x):
        return block(x) if changed else ms.recompute(block, x, use_reentrant=False)

    try:
        found = ms.grad(forward)(ops.ones(4)).asnumpy()
    except RuntimeError:  # the engine has noticed
        return False
    return not np.allclose(found, 2 * (np.cos(2) + np.sin(2)) * np.exp(2.5))
