"""A recomputed convolution feeding a plain ReLU.

Case basics/conv-relu-gradient, variant mindspore/jit.
Source: mindspore.recompute, API page, example
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops


def inputs():
    x = Tensor(np.full((2, 2, 2, 2), 2.0), ms.float32)
    w = Parameter(Tensor(np.full((2, 2, 2, 2), 1.0), ms.float32), name="w")
    return {"x": x, "w": w}


class Conv(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.w = w

    def construct(self, x):
        y = ops.conv2d(x, self.w, pad_mode="same")
        return y


class Net(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.conv = Conv(w)

    def construct(self, x):
        y = self.conv(x)
        z = ops.relu(y)
        return z


def plain(w):
    return Net(w)


class RecomputedNet(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.conv = Conv(w)

    def construct(self, x):
        y = ms.recompute(self.conv, x)
        z = ops.relu(y)
        return z


def recomputed(w):
    return RecomputedNet(w)


def run(forward):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    values = inputs()
    held = {k: v for k, v in values.items() if isinstance(v, Parameter)}
    network = forward(**held)
    weights = [values["w"]]

    def compute(x):
        outputs = network(x)
        return ops.sum(outputs), outputs

    differentiate_compute = ms.jit(
        ms.value_and_grad(compute, grad_position=(0,), weights=weights, has_aux=True)
    )
    (loss, outputs), (of_inputs, of_weights) = differentiate_compute(values["x"])
    gradients = {"x": of_inputs, "w": of_weights[0]}
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
