"""The gradient of the gradient of a gradient.

Case procedures/third-order, variant mindspore/pynative-non-reentrant.
Source: tensorflow's custom gradient tests, testCustomGradientRecomputeGradHigherOrder
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops


def inputs():
    rng = np.random.default_rng(0)
    x = Tensor(0.5 * rng.standard_normal((3, 4)), ms.float32)
    w = Parameter(
        Tensor(0.5 * rng.standard_normal((4, 4)), ms.float32),
        name="w",
        requires_grad=False,
    )
    return {"x": x, "w": w}


class Block(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.w = w

    def construct(self, x):
        h = ops.MatMul()(x, self.w)
        s = ops.sin(h)
        a = ops.exp(s)
        return a


class Net(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.block = Block(w)

    def construct(self, x):
        a = self.block(x)
        z = a * a
        return z


def plain(w):
    return Net(w)


class RecomputedNet(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.block = Block(w)

    def construct(self, x):
        a = ms.recompute(self.block, x, use_reentrant=False, early_stop=False)
        z = a * a
        return z


def recomputed(w):
    return RecomputedNet(w)


def run(forward):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    values = inputs()
    held = {k: v for k, v in values.items() if isinstance(v, Parameter)}
    network = forward(**held)

    def compute(x):
        outputs = network(x)
        return ops.sum(outputs), outputs

    def compute_total(x):
        loss, backward, outputs = ms.vjp(compute, x, has_aux=True)
        of_inputs = backward(ops.ones_like(loss))
        return ops.sum(of_inputs[0]), (loss, outputs, (of_inputs[0],))

    def compute_next(x):
        total, backward, (loss, outputs, first) = ms.vjp(compute_total, x, has_aux=True)
        of_inputs = backward(ops.ones_like(total))
        return ops.sum(of_inputs[0]), (loss, outputs, first)

    total, backward, (loss, outputs, first) = ms.vjp(
        compute_next, values["x"], has_aux=True
    )
    of_inputs = backward(ops.ones_like(total))
    gradients = {"x": first[0]}
    again = {"x": of_inputs[0]}
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": gradients,
        "again": again,
    }


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
