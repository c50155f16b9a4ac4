"""`nn.LSTM`, which returns a tensor and a tuple, in a region with `use_reentrant=True`."""

import paddle
from paddle.distributed.fleet.utils import recompute


def plain(layer, x):
    return layer(x)


def recomputed(layer, x):
    return recompute(layer, x, use_reentrant=True)


def run(call):
    layer = paddle.nn.LSTM(4, 2)
    x = paddle.rand([2, 3, 4])
    x.stop_gradient = False
    outputs, _ = call(layer, x)
    (outputs**2).sum().backward()
    return {"x": x.grad, "first": layer.parameters()[0].grad}
