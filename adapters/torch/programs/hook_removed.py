"""A hook of a module that is removed between forward and backward: the gradient is wrong."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


def plain(function, *args):
    return function(*args)


def recomputed(function, *args):
    return checkpoint(function, *args, use_reentrant=False)


def run(call):
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.randn(2, 4, requires_grad=True)
    steering = model[0].register_forward_hook(lambda layer, args, result: 2 * result)
    y = call(model, x)
    steering.remove()
    y.square().sum().backward()
    return {"result": y, "gradient": x.grad}
