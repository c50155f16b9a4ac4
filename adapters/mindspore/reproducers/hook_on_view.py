"""With `use_reentrant=True`, a hook on a view raises an error inside a recomputed cell."""

import mindspore as ms


class Block(ms.nn.Cell):
    def construct(self, x):
        y = ms.ops.exp(x).reshape(2, 1)
        y.register_hook(lambda gradient: gradient * 2)
        return y * 3


x = ms.Tensor([0.0, 0.0])
assert ms.grad(Block())(x).asnumpy().tolist() == [6, 6]
try:
    ms.grad(lambda x: ms.recompute(Block(), x, use_reentrant=True))(x)
except RuntimeError as error:
    assert "can not register tensor hook" in str(error)
else:
    raise AssertionError("no error was raised")
