"""With `use_reentrant=True`, the hook of a result without a gradient is called with `None`."""

import paddle
from paddle.distributed.fleet.utils import recompute

x = paddle.ones([2])
x.stop_gradient = False
given = []
a, b = recompute(lambda x: (paddle.sin(x), paddle.cos(x)), x, use_reentrant=True)
b.register_hook(lambda gradient: given.append(gradient))
a.sum().backward()
assert given == [None]
