"""Two regions with hooks inside a reentrant one: no pair of hooks is allowed inside another."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "Of three regions inside one another two have"


def differs(changed: bool) -> bool:
    """Whether backward is refused; with the change, the innermost region is reentrant."""

    def innermost(x):
        return paddle.sin(x)

    def inner(x):
        return paddle.sin(recompute(innermost, x, use_reentrant=changed))

    def outer(x):
        return paddle.sin(recompute(inner, x, use_reentrant=False))

    w = paddle.full([3], 0.5)
    w.stop_gradient = False
    try:
        recompute(lambda x: outer(x) * w, w * 1, use_reentrant=True).sum().backward()
    except (OSError, ValueError) as error:
        return "only one pair of hooks is allowed" in str(error)
    return False
