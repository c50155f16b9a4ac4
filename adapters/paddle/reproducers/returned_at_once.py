"""Under `to_static`, `return recompute(f, x)` raises TypeError if `f` captures a tensor."""

import paddle
from paddle.distributed.fleet.utils import recompute


@paddle.jit.to_static(full_graph=False)
def forward(x, w):
    def region(x):
        return x @ w

    return recompute(region, x)


x = paddle.ones([2, 2])
x.stop_gradient = False
try:
    forward(x, paddle.ones([2, 2]))
except TypeError as error:
    assert "but got cell" in str(error)
else:
    raise AssertionError("no error is raised")
finally:
    paddle.set_grad_enabled(True)
