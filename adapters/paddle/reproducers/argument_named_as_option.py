"""`recompute` takes the keyword `preserve_rng_state` for itself: the function runs with its default."""

import paddle
from paddle.distributed.fleet.utils import recompute


def block(x, preserve_rng_state=False):
    return paddle.sin(x) if preserve_rng_state else paddle.cos(x)


x = paddle.ones([3])
x.stop_gradient = False
plain = block(x, preserve_rng_state=True)
recomputed = recompute(block, x, preserve_rng_state=True, use_reentrant=False)
assert bool((recomputed == paddle.cos(x)).all())
assert not bool((recomputed == plain).all())
