"""An argument by name is handed over by position where the function takes any."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "Arguments by name are handed to the region's function"


def differs(changed: bool) -> bool:
    """Whether y comes by position; with the change, use_reentrant=False."""
    seen = []

    def region(*args, **named):
        seen.append((len(args), list(named)))
        return args[0] * 2

    x = paddle.ones([2])
    x.stop_gradient = False
    recompute(region, x, y=paddle.ones([2]), use_reentrant=not changed)
    return seen == [(2, [])]
