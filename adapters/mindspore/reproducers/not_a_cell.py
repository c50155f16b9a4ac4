"""With `use_reentrant=False`, a function in place of a cell does not raise the documented TypeError."""

import mindspore as ms
from mindspore import ops


def sine(x):
    return ops.sin(x)


ms.set_context(mode=ms.PYNATIVE_MODE)
# This raises no error.
ms.recompute(sine, ops.ones(4), use_reentrant=False)
