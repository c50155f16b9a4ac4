"""With `use_reentrant=True`, detached, integer and boolean outputs require a gradient."""

import paddle
from paddle.distributed.fleet.utils import recompute

x = paddle.ones([2])
x.stop_gradient = False


def region(x):
    y = x * 2
    return y, y.detach(), paddle.argmax(y), y > 0


outputs = recompute(region, x, use_reentrant=True)
assert [y.stop_gradient for y in outputs] == [False] * 4
