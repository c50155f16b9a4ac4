"""Dropout inside a region, its random state preserved.

Case randomness/dropout-preserved, variant reference/float64.
Source: torch.utils.checkpoint, preserve_rng_state; Paddle's recompute, preserve_rng_state
"""

import numpy as np
import tape


def inputs():
    rng = np.random.default_rng(0)
    x = tape.tensor(rng.standard_normal((8, 16)), gradient=True)
    w1 = tape.tensor(0.3 * rng.standard_normal((16, 16)), gradient=True)
    w2 = tape.tensor(0.3 * rng.standard_normal((16, 4)), gradient=True)
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2):
    def block(x):
        h = tape.matmul(x, w1)
        d = tape.dropout(h)
        y = tape.matmul(d, w2)
        return y, d

    y, d = block(x)
    z = tape.multiply(y, y)
    return z, d


def recomputed(x, w1, w2):
    def block(x):
        h = tape.matmul(x, w1)
        d = tape.dropout(h)
        y = tape.matmul(d, w2)
        return y, d

    recomputed_block = tape.recompute(block)
    y, d = recomputed_block(x)
    z = tape.multiply(y, y)
    return z, d


def run(forward):
    tape.seed(0)
    values = inputs()
    outputs = forward(**values)
    loss = tape.sum(outputs[0])
    names = ["x", "w1", "w2"]
    wrt = [values["x"], values["w1"], values["w2"]]
    first = tape.gradient(loss, wrt)
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": dict(zip(names, first, strict=True)),
    }


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
