"""With `use_reentrant=True`, an empty tuple as an argument raises an error in backward."""

import paddle
from paddle.distributed.fleet.utils import recompute

x = paddle.ones([3])
x.stop_gradient = False
result = recompute(lambda x, cache: paddle.sin(x), x, (), use_reentrant=True)
raised = ""
try:
    result.sum().backward()
except OSError as error:
    raised = str(error)
assert "tuple index out of range" in raised
