"""Inductor keeps a copy of a convolution's input in channels-last layout."""

import torch
import torch._inductor.config as config
from torch.utils.checkpoint import checkpoint

x = torch.rand(2, 3, 6, 6, requires_grad=True)
w = torch.rand(4, 3, 3, 3, requires_grad=True)
with config.patch(layout_optimization=True):
    run = torch.compile(lambda x: checkpoint(torch.nn.functional.conv2d, x, w, use_reentrant=False))
    kept = [t for t in run(x).grad_fn.saved_tensors if t.shape == x.shape]
assert any(t.data_ptr() != x.data_ptr() for t in kept)
