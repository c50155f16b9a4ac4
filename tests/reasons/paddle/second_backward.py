"""A second backward through a PyLayer ends the process."""

import sys

import paddle

REASON = "A second backward through any PyLayer"


class Double(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def differs(changed: bool) -> bool:
    """Whether the process ends; with the change, the same without a PyLayer."""
    from tests.reasons.ending import died

    return died(__file__, changed=changed)


if __name__ == "__main__":
    x = paddle.ones([2])
    x.stop_gradient = False
    y = (x * 2 if sys.argv[1:] else Double.apply(x)).sum()
    y.backward(retain_graph=True)
    y.backward()
