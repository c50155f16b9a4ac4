"""keras.ops.batch_normalization keeps a tensor beside its input, where torch's keeps the input."""

import torch
from keras import ops

ENVIRONMENT = {"KERAS_BACKEND": "torch"}
REASON = "The batch normalisation outside of the region keeps"


def by_keras(x, weight, bias):
    mean, variance = ops.moments(x, axes=[0, 2, 3])
    return ops.batch_normalization(x, mean, variance, 1, bias, weight)


def by_torch(x, weight, bias):
    return torch.nn.functional.batch_norm(x, None, None, weight, bias, training=True)


def differs(changed: bool) -> bool:
    """Whether two large tensors are saved, with no region at all; with the change, by torch's own."""
    places = set()

    def seen(tensor):
        if tensor.numel() == 64:
            places.add(tensor.data_ptr())
        return tensor

    x = torch.randn(2, 2, 4, 4, requires_grad=True)
    weight, bias = torch.ones(2, requires_grad=True), torch.zeros(2, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(seen, lambda tensor: tensor):
        y = (by_torch if changed else by_keras)(x, weight, bias)
    assert y.requires_grad
    return len(places) == 2
