"""With `use_reentrant=True`, `paddle.incubate.autograd.jvp` returns zeros as the tangent."""

import paddle
from paddle.distributed.fleet.utils import recompute

x = paddle.ones([2])


def tangent(call):
    return paddle.incubate.autograd.jvp(lambda x: call(lambda x: paddle.sin(x), x), x, x)[1]


assert paddle.allclose(tangent(lambda f, x: f(x)), paddle.cos(x))
assert tangent(lambda f, x: recompute(f, x, use_reentrant=True)).tolist() == [0.0, 0.0]
