"""With `use_reentrant=True`, a hook of a tensor used inside and outside a region is called twice."""

import paddle
from paddle.distributed.fleet.utils import recompute

x = paddle.ones([2])
w = paddle.ones([2])
x.stop_gradient = w.stop_gradient = False
parts = []
w.register_hook(lambda gradient: parts.append(float(gradient[0])))
recompute(lambda h: h * w * 3, x * w, use_reentrant=True).sum().backward()
assert float(w.grad[0]) == 6
assert parts == [3, 3]
