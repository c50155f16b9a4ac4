"""An argument that no gradient needs is changed in place after the region: an error is raised."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Model(nn.Module):
    def __init__(self, recompute):
        super().__init__()
        self.layer, self.recompute = nn.Linear(4, 4), recompute

    def body(self, x, total):
        return torch.sin(self.layer(x)) + total

    def forward(self, x):
        total = torch.zeros(8, 4)
        for _ in range(2):
            if self.recompute:
                h = checkpoint(self.body, x, total, use_reentrant=False)
            else:
                h = self.body(x, total)
            total += h.detach()
        return h


def model(recompute):
    return Model(recompute)


def batch(step):
    return torch.randn(8, 4)


def loss(model, x):
    return model(x).square().mean()
