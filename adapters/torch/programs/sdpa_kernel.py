"""The recomputation runs outside of `sdpa_kernel`, with another kernel, which raises an error."""

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    def __init__(self, recompute):
        super().__init__()
        self.project, self.recompute = nn.Linear(16, 48), recompute

    def attend(self, x):
        heads = self.project(x).view(2, 8, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return nn.functional.scaled_dot_product_attention(*heads)

    def forward(self, x):
        with sdpa_kernel(SDPBackend.MATH):
            if self.recompute:
                return checkpoint(self.attend, x, use_reentrant=False)
            return self.attend(x)


def model(recompute):
    return Attention(recompute)


def batch(step):
    return torch.randn(2, 8, 16)


def loss(model, x):
    return model(x).square().mean()
