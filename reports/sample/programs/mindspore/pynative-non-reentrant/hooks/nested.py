"""A gradient hook on a parameter that two nested regions use.

Case hooks/nested, variant mindspore/pynative-non-reentrant.
Source: torch's nested checkpoint tests, test_nested_checkpoint_same_graph
"""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops


def inputs():
    rng = np.random.default_rng(0)
    x = Tensor(0.5 * rng.standard_normal((3, 4)), ms.float32)
    w = Parameter(Tensor(0.5 * rng.standard_normal((4, 4)), ms.float32), name="w")
    return {"x": x, "w": w}


class Inner(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.w = w

    def construct(self, s1):
        h2 = ops.matmul(s1, self.w)
        s2 = ops.sin(h2)
        return ops.exp(s2)


class Outer(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.w = w
        self.inner = Inner(w)

    def construct(self, x):
        h1 = ops.matmul(x, self.w)
        s1 = ops.sin(h1)
        a = self.inner(s1)
        return ops.tanh(a)


class Net(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.outer = Outer(w)

    def construct(self, x):
        y = self.outer(x)
        return y * y


def plain(w):
    return Net(w)


class RecomputedOuter(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.w = w
        self.inner = Inner(w)

    def construct(self, x):
        h1 = ops.matmul(x, self.w)
        s1 = ops.sin(h1)
        a = ms.recompute(self.inner, s1, use_reentrant=False)
        return ops.tanh(a)


class RecomputedNet(nn.Cell):
    def __init__(self, w):
        super().__init__()
        self.outer = RecomputedOuter(w)

    def construct(self, x):
        y = ms.recompute(self.outer, x, use_reentrant=False)
        return y * y


def recomputed(w):
    return RecomputedNet(w)


def run(forward):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    values = inputs()
    fired = []
    values["w"].register_hook(lambda gradient: fired.append("w") or gradient)
    network = forward(values["w"])
    weights = [values["w"]]

    def forward_fn(x):
        outputs = network(x)
        loss = ops.sum(outputs)
        return loss, outputs

    grad_fn = ms.value_and_grad(forward_fn, weights=weights, has_aux=True)
    (loss, outputs), (of_inputs, of_weights) = grad_fn(values["x"])
    gradients = {"x": of_inputs, "w": of_weights[0]}
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": gradients,
        "state": {"hook of w": fired.count("w")},
    }


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
