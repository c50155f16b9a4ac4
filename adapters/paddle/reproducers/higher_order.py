"""With `use_reentrant=True`, the gradient of a gradient does not reach the argument."""

import paddle
from paddle.distributed.fleet.utils import recompute

x = paddle.ones([2])
x.stop_gradient = False
w = paddle.ones([2])
w.stop_gradient = False
y = recompute(lambda x: paddle.exp(x), x, use_reentrant=True)
(first,) = paddle.grad((y * w).sum(), [x], create_graph=True)
# The first gradient depends on w; paddle.grad raises if it depends on no argument.
second, _ = paddle.grad((first * w).sum(), [x, w], allow_unused=True)
assert second is None
