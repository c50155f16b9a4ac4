"""`recompute_sequential` with one segment recomputes nothing."""

import paddle
from paddle.incubate.distributed.fleet import recompute_sequential

runs = []


def layer(x):
    runs.append(x)
    return x * 2


x = paddle.ones([1])
x.stop_gradient = False
recompute_sequential({"segments": 1}, [layer], x).sum().backward()
assert len(runs) == 1
