"""With `use_reentrant=True`, gradients are wrong or raise if a cell returns a tensor that it holds."""

import mindspore as ms
from mindspore import Parameter, nn, ops


class Held(nn.Cell):
    def __init__(self, held):
        super().__init__()
        self.held = held

    def construct(self, x):
        return self.held


ms.set_context(mode=ms.PYNATIVE_MODE)
w = Parameter(ops.ones(4))


def product(x):
    y = ms.recompute(Held(x), ops.cos(w), use_reentrant=True)
    return y * w


of_w = ms.grad(product, 0, [w])(ops.ones(4))[1][0]
assert not of_w.asnumpy().any()  # without recompute, it is x


class HeldBeside(Held):
    def __init__(self, held):
        super().__init__(held)
        self.w = w


try:
    ms.grad(lambda x: ms.recompute(HeldBeside(ops.cos(x)), x, use_reentrant=True), 0)(ops.ones(4))
except IndexError as error:
    assert "list index out of range" in str(error)
else:
    raise AssertionError("no error is raised")

try:
    ms.grad(lambda x: ms.recompute(Held(w), x, use_reentrant=True) * x, 0, [w])(ops.ones(4))
except RuntimeError as error:
    assert "is null" in str(error)
else:
    raise AssertionError("no error is raised")


class Nested(nn.Cell):
    def construct(self, x):
        return ops.sin(x), {"x": x}


try:
    ms.grad(lambda x: ms.recompute(Nested(), w, use_reentrant=True)[0] * x, 0, [w])(ops.ones(4))
except RuntimeError as error:
    assert "is null" in str(error)
else:
    raise AssertionError("no error is raised")

of_x = ms.grad(lambda x: ms.recompute(Nested(), x, use_reentrant=True)[0] + x, 0)(ops.ones(4))
assert (of_x.asnumpy() == 1).all()  # without recompute, it is cos(x) + 1
