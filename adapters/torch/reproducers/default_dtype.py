"""A default dtype that holds in forward alone is another one in the recomputation: an error, or NaN."""

import torch
from torch.utils.checkpoint import CheckpointError, checkpoint


def gradient(**options):
    x = torch.tensor([100.0], requires_grad=True)
    torch.set_default_dtype(torch.float64)
    try:
        y = checkpoint(lambda x: x.to(torch.get_default_dtype()).exp().log(), x, **options)
    finally:
        torch.set_default_dtype(torch.float32)
    y.sum().backward()
    return x.grad


try:
    gradient(use_reentrant=False)
except CheckpointError as error:
    assert "have different metadata" in str(error)
else:
    raise AssertionError("no error is raised")
# The derivative of log(exp(x)) is 1. In float32, exp(100) is infinite.
assert gradient(use_reentrant=True).isnan().all()
