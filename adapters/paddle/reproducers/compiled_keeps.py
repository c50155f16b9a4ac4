"""A forward compiled by `to_static` keeps as many bytes with recompute as without."""

import gc

import paddle
from paddle.base import core
from paddle.distributed.fleet.utils import recompute

LENGTH = 4096


def kept(how):
    """The bytes that a forward of eight exponentials leaves for backward, but its result."""

    def region(x):
        for _ in range(8):
            x = paddle.exp(-x)
        return x * 2

    @paddle.jit.to_static(full_graph=True)
    def forward(x):
        return how(region, x)

    x = paddle.ones([LENGTH])
    x.stop_gradient = False
    forward(x).sum().backward()
    gc.collect()
    before = core.host_memory_stat_current_value("Allocated", 0)
    y = forward(x)
    return core.host_memory_stat_current_value("Allocated", 0) - before - y.numel().item() * 4


recomputed = kept(recompute)
plain = kept(lambda region, x: region(x))
assert plain > 2 * 4 * LENGTH
assert recomputed == plain
