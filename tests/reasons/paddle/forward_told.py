"""A region whose body goes by whether a gradient can reach what it computes."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "With use_reentrant=True the forward runs under no_grad"


def differs(changed: bool) -> bool:
    """Whether it computes something else; with the change, the body switches gradients on."""

    def block(x):
        with paddle.set_grad_enabled(changed or paddle.is_grad_enabled()):
            h = x * 2
            return paddle.cos(h) if h.stop_gradient else paddle.sin(h)

    x = paddle.ones([3])
    x.stop_gradient = False
    return not paddle.equal_all(recompute(block, x, use_reentrant=True), block(x)).item()
