"""A compiled forward keeps as much with recompute as without."""

import gc

import paddle
from paddle.base import core
from paddle.distributed.fleet.utils import recompute

REASON = "Nothing is run again, so the compiled forward keeps"


LENGTH = 4096


def kept(how, compiled):
    """The bytes that a forward of eight exponentials leaves for backward, but its result."""

    def region(x):
        for _ in range(8):
            x = paddle.exp(-x)
        return x * 2

    def forward(x):
        return how(region, x)

    if compiled:
        forward = paddle.jit.to_static(forward, full_graph=True)
    x = paddle.ones([LENGTH])
    x.stop_gradient = False
    forward(x).sum().backward()  # compiles
    gc.collect()  # what compiling left must not go between the two readings
    before = core.host_memory_stat_current_value("Allocated", 0)
    y = forward(x)
    return core.host_memory_stat_current_value("Allocated", 0) - before - y.numel().item() * 4


def differs(changed: bool) -> bool:
    """Whether recompute keeps as much; with the change, without to_static."""
    recomputed = kept(recompute, compiled=not changed)
    plain = kept(lambda region, x: region(x), compiled=not changed)
    assert plain > 2 * 4 * LENGTH
    return recomputed == plain
