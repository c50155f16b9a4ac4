"""A hook of a layer that is removed between forward and backward: the gradient is wrong."""

import paddle
from paddle import nn
from paddle.distributed.fleet.utils import recompute


def plain(function, *args):
    return function(*args)


def recomputed(function, *args):
    return recompute(function, *args, use_reentrant=True)


def run(call):
    x = paddle.randn([2, 4])
    x.stop_gradient = False
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    steering = model[0].register_forward_post_hook(lambda layer, args, result: 2 * result)
    y = call(model, x)
    steering.remove()
    (y**2).sum().backward()
    return {"result": y, "gradient": x.grad}
