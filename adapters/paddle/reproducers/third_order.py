"""With `use_reentrant=True`, a gradient with `create_graph=True` cannot be differentiated again."""

import paddle
from paddle.distributed.fleet.utils import recompute

x = paddle.ones([2])
x.stop_gradient = False
y = recompute(lambda x: x**3, x, use_reentrant=True)
(first,) = paddle.grad(y.sum(), [x], create_graph=True)
try:
    paddle.grad(first.sum(), [x], create_graph=True)
except ValueError as error:
    assert "input does not appear in the backward graph" in str(error)
else:
    raise AssertionError("no error is raised")
