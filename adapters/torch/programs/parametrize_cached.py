"""Two regions that read a parametrized weight inside `parametrize.cached()`."""

import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint


class Tanh(nn.Module):
    def forward(self, w):
        return torch.tanh(w)


def plain(function, *args):
    return function(*args)


def recomputed(function, *args):
    return checkpoint(function, *args, use_reentrant=False)


def run(call):
    layer = nn.Linear(4, 4)
    parametrize.register_parametrization(layer, "weight", Tanh())
    x = torch.ones(2, 4, requires_grad=True)
    with parametrize.cached():
        y = call(lambda x: torch.sin(layer(x)), x)
        y = call(lambda x: torch.sin(layer(x)), y)
    y.square().sum().backward()
    return layer.parametrizations.weight.original.grad
