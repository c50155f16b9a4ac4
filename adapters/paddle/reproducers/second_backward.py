"""A second backward through a PyLayer crashes the process."""

import subprocess
import sys

import paddle


class Double(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


if "child" in sys.argv:
    x = paddle.ones([2])
    x.stop_gradient = False
    y = Double.apply(x).sum()
    y.backward(retain_graph=True)
    y.backward()
else:
    child = subprocess.run([sys.executable, __file__, "child"], capture_output=True, check=False)
    assert child.returncode < 0
