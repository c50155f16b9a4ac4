"""A rerun finds what the forward has put into a list that the region was given."""

import keras
import torch

ENVIRONMENT = {"KERAS_BACKEND": "torch"}
REASON = "The rerun is given the list itself, as the forward has left it"


def differs(changed: bool) -> bool:
    """Whether the gradient is of a longer list; with the change, the list is copied at each call."""

    def region(x, seen):
        if changed:
            seen = list(seen)
        seen.append(1)
        return torch.exp(x * len(seen))

    x = torch.ones(3, requires_grad=True)
    y = keras.remat(region)(x, [])
    y.sum().backward()
    return not torch.equal(x.grad, y)
