"""A rerun finds what the forward has put into a list that the cell was given."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops

REASON = "The rerun is given the list itself, as the forward has left it"


class Counted(nn.Cell):
    def construct(self, x, seen):
        seen.append(1)
        return ops.exp(x * float(len(seen)))


class Copied(Counted):
    def construct(self, x, seen):
        return super().construct(x, list(seen))


def differs(changed: bool) -> bool:
    """Whether the gradient is of a longer list; with the change, the list is copied at each call."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    block = Copied() if changed else Counted()
    y, backward = ms.vjp(lambda x: ms.recompute(block, x, [], use_reentrant=False), ops.ones(4))
    return not np.allclose(backward(ops.ones(4))[0].asnumpy(), y.asnumpy())
