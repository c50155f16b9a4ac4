"""A tensor that the next region detaches gets a gradient of zeros instead of None."""

import paddle
from paddle.distributed.fleet.utils import recompute

x = paddle.ones([2])
w = paddle.ones([2])
x.stop_gradient = w.stop_gradient = False
a = recompute(lambda x: paddle.exp(x), x)
recompute(lambda a: a.detach() * w, a, use_reentrant=True).sum().backward()
assert x.grad is not None
assert (x.grad == 0).all()
