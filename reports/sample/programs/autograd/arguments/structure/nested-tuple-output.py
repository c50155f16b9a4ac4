"""A region that returns a tuple inside a tuple.

Case structure/nested-tuple-output, variant autograd/arguments.
Source: pytorch issue 124725; Paddle's recompute with nested outputs
"""

import autograd.numpy as np
from autograd import checkpoint, make_vjp
from autograd.builtins import tuple


def inputs():
    rng = np.random.default_rng(0)
    x = np.array(0.5 * rng.standard_normal((3, 4)), dtype=np.float32)
    w = np.array(0.5 * rng.standard_normal((4, 4)), dtype=np.float32)
    return {"x": x, "w": w}


def block(x, w):
    h = x @ w
    a = np.sin(h)
    b = np.tanh(h)
    c = np.exp(a)
    return tuple([a, tuple([b, c])])


def plain(x, w):
    a, (b, c) = block(x, w)
    ab = a * b
    z = ab * c
    return z, (b, c)


def recomputed(x, w):
    a, (b, c) = checkpoint(block)(x, w)
    ab = a * b
    z = ab * c
    return z, (b, c)


def run(forward):
    values = inputs()
    seen = []

    def loss_of(values):
        outputs = forward(**values)
        seen.append(outputs)
        return np.sum(outputs[0])

    vjp, loss = make_vjp(loss_of)(values)
    outputs = seen[0]
    gradients = vjp(np.ones_like(loss))
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
