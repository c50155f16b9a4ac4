"""Two adjacent regions, merged.

Case regions/adjacent-merged, variant mindspore/pynative-non-reentrant.
Source: mindspore.recompute, output_recompute=True
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops


def inputs():
    rng = np.random.default_rng(0)
    x = Tensor(0.5 * rng.standard_normal((1024, 64)), ms.float32)
    w1 = Parameter(Tensor(0.1 * rng.standard_normal((64, 64)), ms.float32), name="w1")
    w2 = Parameter(Tensor(0.1 * rng.standard_normal((64, 64)), ms.float32), name="w2")
    return {"x": x, "w1": w1, "w2": w2}


class First(nn.Cell):
    def __init__(self, w1):
        super().__init__()
        self.w1 = w1

    def construct(self, x):
        h1 = ops.matmul(x, self.w1)
        s1 = ops.sin(h1)
        a1 = ops.sin(s1)
        return a1


class Second(nn.Cell):
    def __init__(self, w2):
        super().__init__()
        self.w2 = w2

    def construct(self, a1):
        h2 = ops.matmul(a1, self.w2)
        s2 = ops.sin(h2)
        a2 = ops.sin(s2)
        return a2


class Net(nn.Cell):
    def __init__(self, w1, w2):
        super().__init__()
        self.first = First(w1)
        self.second = Second(w2)

    def construct(self, x):
        a1 = self.first(x)
        a2 = self.second(a1)
        z = ops.sum(a2)
        return z


def plain(w1, w2):
    return Net(w1, w2)


class RecomputedNet(nn.Cell):
    def __init__(self, w1, w2):
        super().__init__()
        self.first = First(w1)
        self.second = Second(w2)

    def construct(self, x):
        a1 = ms.recompute(self.first, x, output_recompute=True, use_reentrant=False)
        a2 = ms.recompute(self.second, a1, use_reentrant=False)
        z = ops.sum(a2)
        return z


def recomputed(w1, w2):
    return RecomputedNet(w1, w2)


def run(forward):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    values = inputs()
    held = {k: v for k, v in values.items() if isinstance(v, Parameter)}
    network = forward(**held)
    weights = [values["w1"], values["w2"]]

    def compute(x):
        outputs = network(x)
        return outputs, outputs

    loss, backward, outputs = ms.vjp(
        compute, values["x"], weights=weights, has_aux=True
    )
    of_inputs, of_weights = backward(ops.ones_like(loss))
    gradients = {"x": of_inputs[0], "w1": of_weights[0], "w2": of_weights[1]}
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
