"""Up to Paddle 3.0, `recompute_sequential` passes the arguments to the last segment as one tuple."""

import paddle
from paddle.incubate.distributed.fleet import recompute_sequential

x = paddle.ones([3])
x.stop_gradient = False
try:
    recompute_sequential({"segments": 1}, [lambda x: x * 2.0], x)
except TypeError:
    pass
else:
    raise AssertionError("no error is raised")
