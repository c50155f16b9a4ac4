"""Inside `torch.vmap`, backward raises, because the rerun comes after the map."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import keras
import torch


def shows():
    def region(x):
        return torch.sin(x).exp()

    recomputed = torch.vmap(keras.remat(region))
    x = torch.ones(3, 4, requires_grad=True)
    y = recomputed(x)
    try:
        y.sum().backward()
    except RuntimeError as error:
        return "escaped from inside a function being vmapped" in str(error)
    return not torch.allclose(x.grad, torch.cos(x) * y)


assert shows()
