"""A captured parameter gets no gradient if no argument requires one."""

import paddle
from paddle.distributed.fleet.utils import recompute

w = paddle.ones([2])
w.stop_gradient = False
x = paddle.ones([2])
x.stop_gradient = True
# Without `+ w`, backward would not run. It contributes one to the gradient, and so should the region.
(recompute(lambda x: x * w, x) + w).sum().backward()
assert (w.grad == 1).all()
