"""A function that computes something else the second time has a wrong gradient, without an error."""

import paddle
from paddle.distributed.fleet.utils import recompute

found = []
for use_reentrant in (True, False):
    runs = []

    def region(x, runs=runs):
        runs.append(x)
        return paddle.exp(x * len(runs))

    x = paddle.ones([2])
    x.stop_gradient = False
    y = recompute(region, x, use_reentrant=use_reentrant)
    y.sum().backward()
    found.append(abs(float(x.grad[0] - y[0])) > 0.001)
assert found == [True, True]
