"""to_static fails on what is no function before recompute refuses it."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "to_static asks what it is given"


def differs(changed: bool) -> bool:
    """Whether None raises an AttributeError; with the change, without to_static."""

    def forward(x):
        return recompute(None, x)

    x = paddle.ones([2])
    x.stop_gradient = False
    try:
        (forward if changed else paddle.jit.to_static(forward, full_graph=True))(x)
    except (AttributeError, TypeError) as error:
        return isinstance(error, AttributeError)
    return False
