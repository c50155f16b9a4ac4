"""A recomputed region draws on the CPU, though the default device is a CUDA device."""

import torch
from torch.utils.checkpoint import checkpoint

torch.set_default_device("cuda")
x = torch.ones(3, requires_grad=True)
y = checkpoint(lambda x: x * torch.rand(()), x, use_reentrant=True)
y.sum().backward()
assert not torch.allclose(x.grad, y), "the gradient is the number that x was multiplied with"

y = checkpoint(lambda x: x * torch.rand(3), x, use_reentrant=True)
try:
    y.sum().backward()
except RuntimeError as error:
    assert "to be on the same device" in str(error)
else:
    raise AssertionError("no error is raised")
