"""BatchNorm with `use_reentrant=False`, in a model that is switched to evaluation before backward."""

import paddle
from paddle import nn
from paddle.distributed.fleet.utils import recompute


def plain(function, *args):
    return function(*args)


def recomputed(function, *args):
    return recompute(function, *args, use_reentrant=False)


def run(call):
    x = paddle.randn([8, 4])
    x.stop_gradient = False
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1D(4), nn.Tanh())
    y = call(model, x)
    model.eval()
    (y**2).sum().backward()
    return {"result": y, "gradient": x.grad}
