"""Up to MLX 0.29, a recomputed function gets a plain tuple in the place of a named one."""

from collections import namedtuple

import mlx.core as mx

Pair = namedtuple("Pair", ["hidden", "mask"])


def loss(x):
    return mx.checkpoint(lambda pair: pair.hidden * 2)(Pair(x, x)).sum()


try:
    mx.eval(mx.grad(loss)(mx.ones(3)))
except AttributeError as error:
    assert "'tuple' object has no attribute 'hidden'" in str(error)
else:
    raise AssertionError("no error is raised")
