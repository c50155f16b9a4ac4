"""A PyLayer that returns its argument marks it as changed in place, so backward raises."""

import paddle


class Both(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, h, again):
        return h * 2, again(h)

    @staticmethod
    def backward(ctx, first, second):
        return first * 2 + second


x = paddle.ones([2])
x.stop_gradient = False
h = paddle.tanh(x)
first, second = Both.apply(h, lambda h: h)
assert h.inplace_version == 1
try:
    (first * second).sum().backward()
except RuntimeError as error:
    assert "inplace" in str(error)
else:
    raise AssertionError("no error is raised")
