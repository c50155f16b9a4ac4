"""A gradient hook on a parameter used inside a region and outside.

Case hooks/shared-parameter, variant mindspore/pynative-reentrant.
Source: torch's autograd tests, test_checkpointing_without_reentrant_parameter_used_in_an_out
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops


def inputs():
    rng = np.random.default_rng(0)
    x = Tensor(0.5 * rng.standard_normal((3, 4)), ms.float32)
    w = Parameter(Tensor(0.5 * rng.standard_normal((4, 4)), ms.float32), name="w")
    return {"x": x, "w": w}


class Block(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.w = w

    def construct(self, h0):
        h = ops.matmul(h0, self.w)
        s = ops.sin(h)
        a = ops.exp(s)
        return a


class Net(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.w = w
        self.block = Block(w)

    def construct(self, x):
        h0 = ops.matmul(x, self.w)
        a = self.block(h0)
        z = a * a
        return z


def plain(w):
    return Net(w)


class RecomputedNet(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.w = w
        self.block = Block(w)

    def construct(self, x):
        h0 = ops.matmul(x, self.w)
        a = ms.recompute(self.block, h0, use_reentrant=True)
        z = a * a
        return z


def recomputed(w):
    return RecomputedNet(w)


def run(forward):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    values = inputs()
    fired = []
    values["w"].register_hook(lambda gradient: fired.append("w") or gradient)
    held = {k: v for k, v in values.items() if isinstance(v, Parameter)}
    network = forward(**held)
    weights = [values["w"]]

    def compute(x):
        outputs = network(x)
        return ops.sum(outputs), outputs

    loss, backward, outputs = ms.vjp(
        compute, values["x"], weights=weights, has_aux=True
    )
    of_inputs, of_weights = backward(ops.ones_like(loss))
    gradients = {"x": of_inputs[0], "w": of_weights[0]}
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": gradients,
        "state": {"hook of w": fired.count("w")},
    }


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
