"""The gradient of the gradient of a gradient.

Case procedures/third-order, variant mindspore/graph-cell.
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
        h = ops.matmul(x, self.w)
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


def recomputed(w):
    network = Net(w)
    network.block.recompute()
    return network


def run(forward):
    ms.set_context(mode=ms.GRAPH_MODE)
    values = inputs()
    held = {k: v for k, v in values.items() if isinstance(v, Parameter)}
    network = forward(**held)

    def compute(x):
        outputs = network(x)
        return ops.sum(outputs), outputs

    def compute_total(x):
        differentiate_compute = ms.value_and_grad(
            compute, grad_position=(0,), has_aux=True
        )
        (loss, outputs), of_inputs = differentiate_compute(x)
        return ops.sum(of_inputs), (loss, outputs, (of_inputs,))

    def compute_next(x):
        differentiate_compute_total = ms.value_and_grad(
            compute_total, grad_position=(0,), has_aux=True
        )
        (_, (loss, outputs, first)), of_inputs = differentiate_compute_total(x)
        return ops.sum(of_inputs), (loss, outputs, first)

    differentiate_compute_next = ms.value_and_grad(
        compute_next, grad_position=(0,), has_aux=True
    )
    (_, (loss, outputs, first)), of_inputs = differentiate_compute_next(values["x"])
    gradients = {"x": first[0]}
    again = {"x": of_inputs}
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
