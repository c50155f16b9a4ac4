"""An exception in the recomputation arrives as `OSError`."""

import paddle
from paddle.distributed.fleet.utils import recompute

kinds = []
for use_reentrant in (True, False):
    calls = []

    def region(x, calls=calls):
        calls.append(x)
        if len(calls) == 2:
            raise ValueError("mine")
        return paddle.exp(x)

    x = paddle.ones([2])
    x.stop_gradient = False
    try:
        recompute(region, x, use_reentrant=use_reentrant).sum().backward()
    except (OSError, ValueError) as error:
        kinds.append(type(error) is OSError and "ValueError: mine" in str(error))
    # An unpack hook that raises leaves gradients disabled.
    paddle.set_grad_enabled(True)
assert kinds == [True, True]
