"""An exception of the rerun loses its type."""

import paddle
from paddle.distributed.fleet.utils import recompute

REASON = "An exception of the rerun comes out of backward as an OSError"


def differs(changed: bool) -> bool:
    """Whether both ways raise an OSError for a ValueError; with the change, forward raises."""
    kinds = []
    for use_reentrant in (True, False):
        calls = []

        def region(x, calls=calls):
            calls.append(x)
            if changed or len(calls) == 2:
                raise ValueError("mine")
            return paddle.exp(x)

        x = paddle.ones([2])
        x.stop_gradient = False
        try:
            recompute(region, x, use_reentrant=use_reentrant).sum().backward()
        except (OSError, ValueError) as error:
            kinds.append(type(error) is OSError and "ValueError: mine" in str(error))
        # An unpack hook that raises leaves gradients turned off.
        paddle.set_grad_enabled(True)
    return kinds == [True, True]
