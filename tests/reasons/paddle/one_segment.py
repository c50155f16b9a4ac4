"""recompute_sequential runs nothing again with one segment."""

import paddle
from paddle.incubate.distributed.fleet import recompute_sequential

REASON = "The last segment is never recomputed"


def differs(changed: bool) -> bool:
    """Whether no layer runs again; with the change, a segment of no layers comes last."""
    runs = []

    def layer(x):
        runs.append(x)
        return x * 2

    x = paddle.ones([1])
    x.stop_gradient = False
    # One row is unpacked into itself between two segments.
    functions = [layer, lambda x: x] if changed else [layer]
    y = recompute_sequential({"segments": len(functions)}, functions, x)
    y.sum().backward()
    return len(runs) == 1
