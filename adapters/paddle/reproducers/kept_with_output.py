"""The arguments of a region live as long as its output, even after backward."""

import weakref

import paddle
from paddle.distributed.fleet.utils import recompute

x = paddle.ones([3])
x.stop_gradient = False
h = -x
z = recompute(lambda h: paddle.sin(paddle.sin(h)), h, use_reentrant=False).sum()
z.backward()
reference = weakref.ref(h)
del h
assert reference() is not None
assert z is not None
