"""A layer with spectral norm, which refines its estimate of the norm in each forward pass."""

import paddle
from paddle import nn
from paddle.distributed.fleet.utils import recompute


def plain(function, *args):
    return function(*args)


def recomputed(function, *args):
    return recompute(function, *args)


def run(call):
    layer = nn.utils.spectral_norm(nn.Linear(4, 4))
    x = paddle.rand([2, 4])
    x.stop_gradient = False
    call(layer, x).square().sum().backward()
    return layer.weight_orig.grad
