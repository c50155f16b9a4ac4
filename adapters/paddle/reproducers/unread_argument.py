"""Backward ends the process if a region does not read an argument that was computed."""

import subprocess
import sys

import paddle
from paddle.distributed.fleet.utils import recompute

if "child" in sys.argv:
    x = paddle.ones([2, 2])
    x.stop_gradient = False
    y = recompute(lambda x, unread: x * 2, x, paddle.abs(x))
    y.sum().backward()
else:
    child = subprocess.run([sys.executable, __file__, "child"], capture_output=True, check=False)
    assert child.returncode < 0
