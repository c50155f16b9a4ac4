"""A region that gives its argument back makes its maker's result count as written over."""

import paddle

REASON = "PyLayer takes an argument that comes back"


class Both(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, h, again):
        return h * 2, again(h)

    @staticmethod
    def backward(ctx, first, second):
        return first * 2 + second


def differs(changed: bool) -> bool:
    """Whether backward says so; with the change, a copy of the argument comes back."""
    x = paddle.ones([2])
    x.stop_gradient = False
    h = paddle.tanh(x)  # saves its result
    first, second = Both.apply(h, paddle.clone if changed else lambda h: h)
    assert h.inplace_version == (0 if changed else 1)
    try:
        (first * second).sum().backward()
    except RuntimeError as error:
        return "inplace" in str(error)
    return False
