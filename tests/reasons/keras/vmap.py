"""The rerun of a region inside torch.vmap happens when the map is over, and is refused."""

import keras
import torch

ENVIRONMENT = {"KERAS_BACKEND": "torch"}
REASON = "The forward pass runs, inside torch.vmap."


def differs(changed: bool) -> bool:
    """Whether backward raises; with the change, the region has the map inside, and maps again."""

    def region(x):
        return torch.sin(x).exp()

    recomputed = keras.remat(torch.vmap(region)) if changed else torch.vmap(keras.remat(region))
    x = torch.ones(3, 4, requires_grad=True)
    y = recomputed(x)
    try:
        y.sum().backward()
    except RuntimeError as error:
        return "escaped from inside a function being vmapped" in str(error)
    return not torch.allclose(x.grad, torch.cos(x) * y)
