"""A deep copy of a cell after `recompute(use_reentrant=False)` reads the original's parameter."""

import copy

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops

ms.set_context(mode=ms.PYNATIVE_MODE)


class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(2.0, ms.float32), name="w")

    def construct(self, x):
        return ops.sin(x * self.w)


original = Block()
original.recompute(use_reentrant=False)
copied = copy.deepcopy(original)
ops.assign(original.w, Tensor(5.0, ms.float32))
gradient_of = ms.value_and_grad(lambda x: copied(x), None, weights=[copied.w])
value, (gradient,) = gradient_of(Tensor(1.0, ms.float32))
assert np.isclose(float(copied.w), 2.0)
assert np.isclose(float(value), np.sin(5.0))  # should be sin(2)
assert float(gradient) == 0.0  # should be cos(2)
