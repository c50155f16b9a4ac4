"""Up to Paddle 3.0, an argument without elements of a reentrant region has no gradient."""

import paddle
from paddle.distributed.fleet.utils import recompute

x = paddle.ones([0, 4])
x.stop_gradient = False
y = recompute(lambda x: paddle.exp(paddle.sin(x)), x, use_reentrant=True)
y.sum().backward()
assert x.grad is None
