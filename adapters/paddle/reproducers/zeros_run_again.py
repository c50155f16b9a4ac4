"""A function is recomputed although the next one stops its gradient."""

import paddle
from paddle.distributed.fleet.utils import recompute

x = paddle.ones([2])
w = paddle.ones([2])
x.stop_gradient = w.stop_gradient = False
runs = []


def first(x):
    runs.append(x)
    return paddle.exp(x)


a = recompute(first, x)
recompute(lambda a: a.detach() * w, a, use_reentrant=True).sum().backward()
assert len(runs) == 2
