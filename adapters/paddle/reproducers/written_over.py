"""If an argument is changed in place after the call, the recomputation reads the new value."""

import paddle
from paddle.distributed.fleet.utils import recompute

found = []
for use_reentrant in (True, False):
    x = paddle.ones([2])
    x.stop_gradient = False
    h = x * 1
    y = recompute(lambda h: paddle.exp(h * 1), h, use_reentrant=use_reentrant)
    h = h.add_(paddle.ones([2]))
    y.sum().backward()
    found.append(abs(float(x.grad[0] - y[0])) > 0.001)
assert found == [True, True]
