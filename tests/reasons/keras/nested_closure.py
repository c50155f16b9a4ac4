"""What the function of an inner region has captured is kept until backward."""

import weakref

import keras
import torch

ENVIRONMENT = {"KERAS_BACKEND": "torch"}
REASON = "The function of the inner region has the captured tensor in its closure"


def differs(changed: bool) -> bool:
    """Whether the tensor lives on after the forward; with the change, the inner call is no region."""
    made = []

    def outer(x):
        y = torch.sin(x)
        made.append(weakref.ref(y))

        def inner(x):
            return torch.exp(x * y)

        return inner(x) if changed else keras.remat(inner)(x)

    x = torch.ones(4, requires_grad=True)
    z = keras.remat(outer)(x)
    kept = made[0]() is not None
    z.sum().backward()
    return kept
