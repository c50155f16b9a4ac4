"""A function that does something else in the rerun gives another gradient, and no error."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "Nothing compares what the rerun computes"


def differs(changed: bool) -> bool:
    """Whether the gradient is another one, both ways; with the change, the rerun does the same."""
    found = []
    for use_reentrant in (True, False):
        runs = []

        def region(x, runs=runs):
            runs.append(x)
            return paddle.exp(x * (1 if changed else len(runs)))

        x = paddle.ones([2])
        x.stop_gradient = False
        y = recompute(region, x, use_reentrant=use_reentrant)
        y.sum().backward()
        found.append(abs(float(x.grad[0] - y[0])) > 1e-3)
    return found == [True, True]
