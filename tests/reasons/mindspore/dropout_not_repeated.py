"""Under one seed, two runs of a graph with a dropout draw other numbers after some steps."""

import mindspore as ms
import numpy as np
from mindspore import nn, ops

REASON = "Under a seed, a graph with a dropout draws the same numbers in each run for its first"
PAIRS, STEPS = 10, 100


class Net(nn.Cell):
    def construct(self, x):
        return ops.dropout(ops.exp(x), p=0.5)


def _drawn(steps: int) -> list[np.ndarray]:
    ms.set_seed(0)
    step = ms.value_and_grad(Net(), 0)
    return [step(ops.zeros(128))[0].asnumpy() for _ in range(steps)]


def differs(changed: bool) -> bool:
    """Whether two runs have other masks; with the change, they are of two steps each. It does not happen
    with every two."""
    ms.set_context(mode=ms.GRAPH_MODE)
    steps = 2 if changed else STEPS
    try:
        return any(not np.array_equal(_drawn(steps), _drawn(steps)) for _ in range(PAIRS))
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
