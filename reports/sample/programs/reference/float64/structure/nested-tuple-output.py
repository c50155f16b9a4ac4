"""A region that returns a tuple inside a tuple.

Case structure/nested-tuple-output, variant reference/float64.
Source: pytorch issue 124725; Paddle's recompute with nested outputs
"""

import numpy as np
import tape


def inputs():
    rng = np.random.default_rng(0)
    x = tape.tensor(0.5 * rng.standard_normal((3, 4)), gradient=True)
    w = tape.tensor(0.5 * rng.standard_normal((4, 4)), gradient=True)
    return {"x": x, "w": w}


def plain(x, w):
    def block(x):
        h = tape.matmul(x, w)
        a = tape.sin(h)
        b = tape.tanh(h)
        c = tape.exp(a)
        return a, (b, c)

    a, (b, c) = block(x)
    ab = tape.multiply(a, b)
    z = tape.multiply(ab, c)
    return z, (b, c)


def recomputed(x, w):
    def block(x):
        h = tape.matmul(x, w)
        a = tape.sin(h)
        b = tape.tanh(h)
        c = tape.exp(a)
        return a, (b, c)

    recomputed_block = tape.recompute(block)
    a, (b, c) = recomputed_block(x)
    ab = tape.multiply(a, b)
    z = tape.multiply(ab, c)
    return z, (b, c)


def run(forward):
    values = inputs()
    outputs = forward(**values)
    loss = tape.sum(outputs[0])
    names = ["x", "w"]
    wrt = [values["x"], values["w"]]
    first = tape.gradient(loss, wrt)
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": dict(zip(names, first, strict=True)),
    }


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
