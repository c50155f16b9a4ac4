"""None as a module ends nn.utils.checkpoint with an AttributeError, in the call of what it returns."""

import mlx.core as mx
from mlx import nn

REASON = "nn.utils.checkpoint(None) looks for the parameters of None"


def differs(changed: bool) -> bool:
    """Whether the call raises; with the change, there is a module."""

    recomputed = nn.utils.checkpoint(nn.Module() if changed else None, mx.sin)
    try:
        recomputed(mx.array(2.0))
    except AttributeError as error:
        return "'NoneType' object has no attribute" in str(error)
    return False
