"""`recompute_sequential` unpacks the output of each segment along its first axis."""

import paddle
from paddle.incubate.distributed.fleet import recompute_sequential


def shape(rows):
    """The shape of the output of two layers, or the error that they raise."""
    x = paddle.ones([rows, 3])
    x.stop_gradient = False
    try:
        return recompute_sequential({"segments": 2}, [paddle.sin, paddle.sin], x).shape
    except TypeError:
        return TypeError


assert shape(2) is TypeError
assert shape(1) == [3]
