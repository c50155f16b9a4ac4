"""Captured objects are never freed if a region raises."""

import contextlib
import gc
import weakref

import paddle
from paddle.distributed.fleet.utils import recompute


class Captured:
    """Something that a region reads by closure."""


def train(captured, raises_at):
    """Run a region that reads something by closure and raises in its first or second run."""
    runs = []

    def region(x):
        runs.append(type(captured))
        if len(runs) == raises_at:
            raise ValueError
        return paddle.exp(x)

    x = paddle.ones([2])
    x.stop_gradient = False
    with contextlib.suppress(ValueError, OSError):
        recompute(region, x, use_reentrant=True).sum().backward()
    # An unpack hook that raises leaves gradients disabled.
    paddle.set_grad_enabled(True)


def stays(raises_at):
    """Whether the object that the region reads is never freed."""
    captured = Captured()
    left = weakref.ref(captured)
    train(captured, raises_at)
    del captured
    gc.collect()
    return left() is not None


assert stays(1)
assert stays(2)
assert not stays(None)
