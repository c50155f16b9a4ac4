"""`incubate.autograd.vjp` returns zeros for a parameter that a recomputed function captures."""

import paddle
from paddle.distributed.fleet.utils import recompute


def loss(x, w):
    return recompute(lambda x: x * w, x).sum()


x = paddle.ones([2])
w = paddle.ones([2])
x.stop_gradient = w.stop_gradient = False
_, (_, gradient) = paddle.incubate.autograd.vjp(loss, [x, w])
assert (gradient == 0).all()
