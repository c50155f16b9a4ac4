"""With `use_reentrant=True`, a region that returns a named tuple returns a plain tuple."""

from typing import NamedTuple

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Output(NamedTuple):
    hidden: torch.Tensor
    gate: torch.Tensor


class Model(nn.Module):
    def __init__(self, recompute):
        super().__init__()
        self.layer, self.recompute = nn.Linear(4, 8), recompute

    def body(self, x):
        hidden, gate = self.layer(x).chunk(2, -1)
        return Output(torch.sin(hidden), torch.sigmoid(gate))

    def forward(self, x):
        out = checkpoint(self.body, x, use_reentrant=True) if self.recompute else self.body(x)
        return out.hidden * out.gate


def model(recompute):
    return Model(recompute)


def batch(step):
    return torch.randn(8, 4, requires_grad=True)


def loss(model, x):
    return model(x).square().mean()
