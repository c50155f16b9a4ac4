"""Up to Paddle 3.0, `to_static(full_graph=False)` cannot read an item of `**named` in a region."""

import paddle
from paddle.distributed.fleet.utils import recompute
from paddle.jit.sot.utils.exceptions import InnerError


@paddle.jit.to_static(full_graph=False)
def forward(x, y):
    def block(*args, **named):
        (x,) = args
        return paddle.sin(x * named["m"])

    return recompute(block, x, m=y).sum()


x = paddle.ones([3])
x.stop_gradient = False
try:
    forward(x, x)
except InnerError as error:
    assert "Empty()" in str(error)
else:
    raise AssertionError("no error is raised")
