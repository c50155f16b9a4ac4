"""A region runs again though the next one stops its gradient, with use_reentrant=True."""

import mindspore as ms
from mindspore import nn, ops

REASON = "The second region only stops the gradient of its argument"


class First(nn.Cell):
    calls = 0

    def construct(self, x):
        self.calls += 1
        return ops.sin(x)


class Second(nn.Cell):
    def construct(self, a, y):
        return ops.stop_gradient(a) * ops.sin(y)


def differs(changed: bool) -> bool:
    """Whether the first region runs twice; with the change, the second is called as it is."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    first, second = First(), Second()

    def forward(x, y):
        a = ms.recompute(first, x, use_reentrant=True)
        return second(a, y) if changed else ms.recompute(second, a, y, use_reentrant=True)

    ms.grad(forward, (0, 1))(ops.ones(4), ops.ones(4))[0].asnumpy()
    return first.calls == 2
