"""`nn.utils.checkpoint(None, f)` accepts None, and the call of its result raises."""

import mlx.core as mx
from mlx import nn

recomputed = nn.utils.checkpoint(None, mx.sin)
try:
    recomputed(mx.array(2.0))
except AttributeError as error:
    assert "'NoneType' object has no attribute" in str(error)
else:
    raise AssertionError("no error is raised")
