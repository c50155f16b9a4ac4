"""With `use_reentrant=True`, backward raises if an argument is a list of tensors."""

import paddle
from paddle.distributed.fleet.utils import recompute

x, y = paddle.ones([3]), paddle.ones([3])
x.stop_gradient = y.stop_gradient = False
result = recompute(lambda both: paddle.sin(both[0]) * both[1], [x, y], use_reentrant=True)
raised = ""
try:
    result.sum().backward()
except ValueError as error:
    raised = str(error)
assert "should not return empty" in raised
