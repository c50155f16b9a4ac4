"""In PyNative mode, a cell that computes a gradient itself cannot be recomputed."""

import mindspore as ms
from mindspore import nn, ops


class Block(nn.Cell):
    def construct(self, x):
        slope = ms.grad(lambda x: ops.sin(x).sum())(ops.exp(x))
        return ops.sin(slope)


ms.set_context(mode=ms.PYNATIVE_MODE)
block = Block()


def forward(x, reentrant):
    return ms.recompute(block, x, use_reentrant=reentrant).sum()


for reentrant, text in ((True, "In no_grad context"), (False, "input_args_info")):
    try:
        ms.grad(lambda x, reentrant=reentrant: forward(x, reentrant))(ms.Tensor([1.0, 2.0]))
    except RuntimeError as error:
        assert text in str(error)
    else:
        raise AssertionError("no error is raised")
