"""A second backward through a PyLayer crashes the process."""

import paddle


class Double(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


x = paddle.ones([2])
x.stop_gradient = False
y = Double.apply(x).sum()
y.backward(retain_graph=True)
y.backward()
