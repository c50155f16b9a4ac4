"""No argument of the region asks for a gradient, its parameters do.

Case captures/frozen-input, variant autograd/closure.
Source: pytorch issue 7617; Paddle issues 52603 and 62981; transformers issue 21381
"""

import autograd.numpy as np
from autograd import checkpoint, make_vjp


def inputs():
    rng = np.random.default_rng(0)
    x = np.array(0.5 * rng.standard_normal((3, 4)), dtype=np.float32)
    w1 = np.array(0.5 * rng.standard_normal((4, 4)), dtype=np.float32)
    w2 = np.array(0.5 * rng.standard_normal((4, 2)), dtype=np.float32)
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2):
    def block(x):
        h = x @ w1
        s = np.sin(h)
        return np.exp(s)

    a = block(x)
    y = a @ w2
    return y * y


def recomputed(x, w1, w2):
    def block(x):
        h = x @ w1
        s = np.sin(h)
        return np.exp(s)

    a = checkpoint(block)(x)
    y = a @ w2
    return y * y


def run(forward):
    values = inputs()
    wanted = {"w1": values["w1"], "w2": values["w2"]}
    seen = []

    def loss_of(wanted):
        outputs = forward(**{**values, **wanted})
        seen.append(outputs)
        return np.sum(outputs)

    vjp, loss = make_vjp(loss_of)(wanted)
    outputs = seen[0]
    gradients = vjp(np.ones_like(loss))
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
