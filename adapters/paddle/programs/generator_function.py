"""With `use_reentrant=True`, a generator function as the region raises an error."""

import paddle
from paddle import nn
from paddle.distributed.fleet.utils import recompute


def plain(function, *args):
    return function(*args)


def recomputed(function, *args):
    return recompute(function, *args, use_reentrant=True)


def run(call):
    layer, x = nn.Linear(4, 4), paddle.randn([2, 4])
    x.stop_gradient = False

    def stages(x):
        for _ in range(3):
            x = paddle.tanh(layer(x))
            yield x

    sum(stage.sum() for stage in call(stages, x)).backward()
    return x.grad
