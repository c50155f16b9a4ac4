"""The backward of a PyLayer is not called if none of its arguments requires a gradient."""

import paddle


class Double(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, w, x):
        ctx.called = w
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        ctx.called.append("backward")
        return gradient * 2


called = []
x = paddle.ones([2])
x.stop_gradient = True
w = paddle.ones([2])
w.stop_gradient = False
(Double.apply(called, x) * w).sum().backward()
assert not called
