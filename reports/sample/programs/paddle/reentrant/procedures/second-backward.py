"""Gradients taken twice over one retained graph.

Case procedures/second-backward, variant paddle/reentrant.
Source: torch's checkpoint tests, retain_graph; a crash of Paddle's PyLayer recompute
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
    def block(x):
        h = x @ w
        s = paddle.sin(h)
        a = paddle.exp(s)
        return a

    a = block(x)
    z = a * a
    return z


def recomputed(x, w):
    def block(x):
        h = x @ w
        s = paddle.sin(h)
        a = paddle.exp(s)
        return a

    a = recompute(block, x, use_reentrant=True)
    z = a * a
    return z


def run(forward):
    values = inputs()
    outputs = forward(**values)
    loss = outputs.sum()
    loss.backward(retain_graph=True)
    # Clearing a gradient empties the tensor that .grad gave out: copy it first.
    taken = {"x": values["x"].grad, "w": values["w"].grad}
    gradients = {n: None if g is None else g.clone() for n, g in taken.items()}
    for value in values.values():
        if isinstance(value, paddle.Tensor):
            value.clear_gradient(set_to_zero=False)
    loss.backward()
    again = {"x": values["x"].grad, "w": values["w"].grad}
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
