"""A region runs again though no gradient reaches it."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "The second region only detaches its argument"


def differs(changed: bool) -> bool:
    """Whether the first region runs again; with the change, the second one is no PyLayer."""
    x = paddle.ones([2])
    w = paddle.ones([2])
    x.stop_gradient = w.stop_gradient = False
    runs = []

    def first(x):
        runs.append(x)
        return paddle.exp(x)

    a = recompute(first, x)
    recompute(lambda a: a.detach() * w, a, use_reentrant=not changed).sum().backward()
    return len(runs) == 2
