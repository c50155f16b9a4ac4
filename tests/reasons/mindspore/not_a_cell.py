"""A function where a cell is wanted raises TypeError with use_reentrant=True only."""

import mindspore as ms
from mindspore import ops

REASON = "The documentation promises TypeError for a block that is not a Cell"


def sine(x):
    return ops.sin(x)


def differs(changed: bool) -> bool:
    """Whether a function is taken for a cell; with the change, use_reentrant=True."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    try:
        ms.recompute(sine, ops.ones(4), use_reentrant=changed)
    except TypeError:
        return False
    return True
