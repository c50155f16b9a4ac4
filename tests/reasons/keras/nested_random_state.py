"""A region inside another one keeps a copy of the random state until backward."""

import gc

import keras
import torch

ENVIRONMENT = {"KERAS_BACKEND": "torch"}
REASON = "A region inside another one keeps a copy of the generator's state"


def states() -> int:
    """How many copies of the CPU generator's state are alive."""
    gc.collect()
    shape = torch.get_rng_state().shape
    return sum(type(o) is torch.Tensor and o.shape == shape for o in gc.get_objects())


def differs(changed: bool) -> bool:
    """Whether more than the outer region's copy is kept; with the change, there is no inner region."""
    before = states()
    inner = torch.sin if changed else keras.remat(torch.sin)
    x = torch.ones(4, requires_grad=True)
    y = keras.remat(lambda x: inner(inner(x)))(x)
    kept = states() - before
    y.sum().backward()
    return kept > 1
