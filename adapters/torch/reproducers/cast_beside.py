"""Two autocast blocks with different dtypes share casts of a weight in the recomputation."""

import torch
from torch.utils.checkpoint import CheckpointError, checkpoint

weight = torch.randn(4, 4, requires_grad=True)


def block(x):
    with torch.autocast("cpu", torch.bfloat16):
        a = x @ weight
    with torch.autocast("cpu", torch.float16):
        b = x @ weight
    return a.float() + b.float()


def gradient(function):
    x = (torch.arange(16.0).reshape(4, 4) / 7).requires_grad_()
    weight.grad = None
    function(x).sum().backward()
    return weight.grad


plain = gradient(block)
assert not torch.equal(plain, gradient(lambda x: checkpoint(block, x, use_reentrant=True)))
try:
    gradient(lambda x: checkpoint(block, x, use_reentrant=False))
except CheckpointError as error:
    assert "different metadata" in str(error)
else:
    raise AssertionError("no error")
