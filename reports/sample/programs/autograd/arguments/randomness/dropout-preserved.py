"""Dropout inside a region, its random state preserved.

Case randomness/dropout-preserved, variant autograd/arguments.
Source: torch.utils.checkpoint, preserve_rng_state; Paddle's recompute, preserve_rng_state
"""

import autograd.numpy as np
from autograd import checkpoint, make_vjp
from autograd.builtins import tuple


def dropout(x, p, rng=np.random):
    keep = rng.uniform(size=x.shape) >= p
    return x * keep / (1 - p)


def inputs():
    rng = np.random.default_rng(0)
    x = np.array(rng.standard_normal((8, 16)), dtype=np.float32)
    w1 = np.array(0.3 * rng.standard_normal((16, 16)), dtype=np.float32)
    w2 = np.array(0.3 * rng.standard_normal((16, 4)), dtype=np.float32)
    return {"x": x, "w1": w1, "w2": w2}


def block(x, w1, w2):
    h = x @ w1
    d = dropout(h, 0.5)
    y = d @ w2
    return tuple([y, d])


def plain(x, w1, w2):
    y, d = block(x, w1, w2)
    z = y * y
    return z, d


def recomputed(x, w1, w2):
    y, d = checkpoint(block)(x, w1, w2)
    z = y * y
    return z, d


def run(forward):
    np.random.seed(0)
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
