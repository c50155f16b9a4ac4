"""With `use_reentrant=True`, forward runs without gradients, and a function can depend on that."""

import paddle
from paddle.distributed.fleet.utils import recompute


def block(x):
    with paddle.set_grad_enabled(paddle.is_grad_enabled()):
        h = x * 2
        return paddle.cos(h) if h.stop_gradient else paddle.sin(h)


x = paddle.ones([3])
x.stop_gradient = False
assert not paddle.equal_all(recompute(block, x, use_reentrant=True), block(x)).item()
