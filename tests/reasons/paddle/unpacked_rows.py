"""recompute_sequential unpacks what a segment gives."""

import paddle
from paddle.incubate.distributed.fleet import recompute_sequential

REASON = "What one segment gives is unpacked"


def shape(rows, segments):
    """The shape that two layers give, or the error that they raise."""
    x = paddle.ones([rows, 3])
    x.stop_gradient = False
    try:
        return recompute_sequential({"segments": segments}, [paddle.sin, paddle.sin], x).shape
    except TypeError:
        return TypeError


def differs(changed: bool) -> bool:
    """Whether two rows raise, and one loses its dimension; with the change, one segment."""
    segments = 1 if changed else 2
    return shape(2, segments) is TypeError and shape(1, segments) == [3]
