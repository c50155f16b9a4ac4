"""What a region was given stays while an output's graph is there, backward or not."""

import weakref

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "With use_reentrant=False what a region was given"


def differs(changed: bool) -> bool:
    """Whether the argument is there after backward; with the change, recompute is reentrant."""
    x = paddle.ones([3])
    x.stop_gradient = False
    h = -x
    z = recompute(lambda h: paddle.sin(paddle.sin(h)), h, use_reentrant=changed).sum()
    z.backward()
    reference = weakref.ref(h)
    del h
    return reference() is not None and z is not None
