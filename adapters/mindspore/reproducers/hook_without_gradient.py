"""With `use_reentrant=True`, the hook of a result without a gradient is called with `None`."""

import mindspore as ms
from mindspore import mint


class Region(ms.nn.Cell):
    def construct(self, x):
        return mint.sin(x), mint.cos(x)


given = []
region = Region()
region.recompute(use_reentrant=True)


def forward(x):
    a, b = region(x)
    b.register_hook(lambda gradient: given.append(gradient))
    return a.sum()


ms.grad(forward)(ms.Tensor([1.0, 2.0]))
assert given == [None]
