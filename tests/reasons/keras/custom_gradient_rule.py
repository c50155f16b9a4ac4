"""What the rule of keras.ops.custom_gradient closes over is kept inside of a region."""

import weakref

import keras
import torch
from keras import ops

ENVIRONMENT = {"KERAS_BACKEND": "torch"}
REASON = "keras.ops.custom_gradient keeps the rule"


made = []


class Saving(torch.autograd.Function):
    """The sine, whose cosine is saved with save_for_backward."""

    @staticmethod
    def forward(ctx, x):
        cosine = torch.cos(x)
        made.append(weakref.ref(cosine))
        ctx.save_for_backward(cosine)
        return torch.sin(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


@ops.custom_gradient
def closing(x):
    cosine = torch.cos(x)
    made.append(weakref.ref(cosine))
    return torch.sin(x), lambda *_, upstream: upstream * cosine


def differs(changed: bool) -> bool:
    """Whether the cosine lives on after the forward; with the change, save_for_backward saves it."""
    made.clear()
    x = torch.ones(4, requires_grad=True)
    y = keras.remat(Saving.apply if changed else closing)(x)
    kept = made[0]() is not None
    y.sum().backward()
    assert torch.allclose(x.grad, torch.cos(x))
    return kept
