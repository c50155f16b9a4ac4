"""A gradient hook on a parameter that two nested regions use.

Case hooks/nested, variant paddle/hook.
Source: torch's nested checkpoint tests, test_nested_checkpoint_same_graph
"""

import numpy as np
import paddle
from paddle.distributed.fleet.utils import recompute


def inputs():
    rng = np.random.default_rng(0)
    x = paddle.to_tensor(
        0.5 * rng.standard_normal((3, 4)), dtype="float32", stop_gradient=False
    )
    w = paddle.nn.Parameter(
        paddle.to_tensor(0.5 * rng.standard_normal((4, 4)), dtype="float32")
    )
    return {"x": x, "w": w}


def plain(x, w):
    def outer(x):
        h1 = x @ w
        s1 = paddle.sin(h1)

        def inner(s1):
            h2 = s1 @ w
            s2 = paddle.sin(h2)
            return paddle.exp(s2)

        a = inner(s1)
        return paddle.tanh(a)

    y = outer(x)
    return y * y


def recomputed(x, w):
    def outer(x):
        h1 = x @ w
        s1 = paddle.sin(h1)

        def inner(s1):
            h2 = s1 @ w
            s2 = paddle.sin(h2)
            return paddle.exp(s2)

        a = recompute(inner, s1, use_reentrant=False)
        return paddle.tanh(a)

    y = recompute(outer, x, use_reentrant=False)
    return y * y


def run(forward):
    values = inputs()
    fired = []
    values["w"].register_hook(lambda _: fired.append("w"))
    outputs = forward(**values)
    loss = outputs.sum()
    loss.backward()
    gradients = {"x": values["x"].grad, "w": values["w"].grad}
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": gradients,
        "state": {"hook of w": fired.count("w")},
    }


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
