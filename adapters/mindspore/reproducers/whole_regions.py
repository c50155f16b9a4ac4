"""With `use_reentrant=True`, a region is recomputed although the next one stops its gradient."""

import mindspore as ms
from mindspore import nn, ops


class First(nn.Cell):
    calls = 0

    def construct(self, x):
        self.calls += 1
        return ops.sin(x)


class Second(nn.Cell):
    def construct(self, a, y):
        return ops.stop_gradient(a) * ops.sin(y)


ms.set_context(mode=ms.PYNATIVE_MODE)
first, second = First(), Second()


def forward(x, y):
    a = ms.recompute(first, x, use_reentrant=True)
    return ms.recompute(second, a, y, use_reentrant=True)


ms.grad(forward, (0, 1))(ops.ones(4), ops.ones(4))[0].asnumpy()
assert first.calls == 2
