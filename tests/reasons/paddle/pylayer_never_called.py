"""A PyLayer's backward is not called where no argument asks for a gradient."""

import paddle

REASON = "The backward of a PyLayer none of whose tensors asks"


class Double(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, w, x):
        ctx.called = w
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        ctx.called.append("backward")
        return gradient * 2


def differs(changed: bool) -> bool:
    """Whether the backward is not called; with the change, the argument asks for a gradient."""
    called = []
    x = paddle.ones([2])
    x.stop_gradient = not changed
    w = paddle.ones([2])
    w.stop_gradient = False
    (Double.apply(called, x) * w).sum().backward()
    return not called
