"""Each rerun that early stop has left leaves a Tensor object behind."""

import gc

import mindspore as ms
from mindspore import Tensor, nn, ops

REASON = "Each rerun that early stop has left keeps a Tensor object alive"


class Block(nn.Cell):
    def construct(self, x):
        return ops.exp(ops.sin(x))


def alive() -> int:
    gc.collect()
    return sum(issubclass(type(value), Tensor) for value in gc.get_objects())


def differs(changed: bool) -> bool:
    """Whether four steps leave four tensors; with the change, early_stop=False."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    block, stop, x = Block(), not changed, ops.ones(4)

    def forward(x):
        return ms.recompute(block, x, use_reentrant=False, early_stop=stop)

    def step():
        ms.grad(forward)(x).asnumpy()

    step()
    before = alive()
    for _ in range(4):
        step()
    return alive() - before >= 4
