"""Regions of a module that `functional_call` gives other parameters: the gradients are wrong."""

import torch
from torch import nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint


class Model(nn.Module):
    def __init__(self, call):
        super().__init__()
        self.layer, self.call = nn.Linear(4, 4), call

    def forward(self, x):
        return self.call(lambda x: torch.tanh(self.layer(x)), x)


def plain(function, *args):
    return function(*args)


def recomputed(function, *args):
    return checkpoint(function, *args, use_reentrant=False)


def run(call):
    model, x = Model(call), torch.randn(2, 4, requires_grad=True)
    faster = {n: (2 * p.detach()).requires_grad_() for n, p in model.named_parameters()}
    y = functional_call(model, faster, x)
    y.square().sum().backward()
    return {"result": y, "gradient": x.grad, "weight": faster["layer.weight"].grad}
