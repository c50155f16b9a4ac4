"""In graph mode, two runs with one seed and a dropout draw different numbers after some steps."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops

PAIRS, STEPS = 10, 100


class Net(nn.Cell):
    def construct(self, x):
        return ops.dropout(ops.exp(x), p=0.5)


def _drawn(steps: int) -> list[np.ndarray]:
    ms.set_seed(0)
    step = ms.value_and_grad(Net(), 0)
    return [step(ops.zeros(128))[0].asnumpy() for _ in range(steps)]


def shows():
    ms.set_context(mode=ms.GRAPH_MODE)
    steps = STEPS
    try:
        return any(not np.array_equal(_drawn(steps), _drawn(steps)) for _ in range(PAIRS))
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


assert shows()
