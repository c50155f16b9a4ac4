"""A captured parameter gets no gradient if no argument requires one."""

import paddle
from paddle.distributed.fleet.utils import recompute

w = paddle.ones([2])
w.stop_gradient = False
x = paddle.ones([2])
x.stop_gradient = True
# The sum with w lets backward run at all.
(recompute(lambda x: x * w, x) + w).sum().backward()
assert not bool((w.grad == 2).all())
