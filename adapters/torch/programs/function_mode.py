"""A `TorchFunctionMode` that is active in forward and in backward, and not in the recomputation."""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint


class CosineForSine(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.sin:
            function = torch.cos
        return function(*args, **(kwargs or {}))


def plain(function, *args):
    return function(*args)


def recomputed(function, *args):
    return checkpoint(function, *args, use_reentrant=False)


def run(call):
    x = torch.rand(3, requires_grad=True)
    with CosineForSine():
        y = call(lambda x: torch.exp(torch.sin(x)), x)
        y.sum().backward()
    return {"result": y, "gradient": x.grad}
