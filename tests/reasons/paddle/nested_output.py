"""A tensor in a tuple among a region's outputs contributes no gradient."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "The backward looks for tensors at the top level"


def differs(changed: bool) -> bool:
    """Whether the gradient of x is not 5; with the change, the outputs are one flat tuple."""
    x = paddle.ones([2])
    x.stop_gradient = False

    def region(x):
        return (x * 2, x * 3) if changed else (x * 2, (x * 3,))

    first, second = recompute(region, x)
    if not changed:
        (second,) = second
    (first + second).sum().backward()
    return not bool((x.grad == 5).all())
