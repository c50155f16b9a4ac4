"""A keyword argument is passed by position to a function with `*args` and `**kwargs`."""

import paddle
from paddle.distributed.fleet.utils import recompute

seen = []


def region(*args, **named):
    seen.append((len(args), list(named)))
    return args[0] * 2


x = paddle.ones([2])
x.stop_gradient = False
recompute(region, x, y=paddle.ones([2]), use_reentrant=True)
assert seen == [(2, [])]
