"""No argument of the region asks for a gradient, its parameters do.

Case captures/frozen-input, variant reference/float64.
Source: pytorch issue 7617; Paddle issues 52603 and 62981; transformers issue 21381
"""

import numpy as np
import tape


def inputs():
    rng = np.random.default_rng(0)
    x = tape.tensor(0.5 * rng.standard_normal((3, 4)))
    w1 = tape.tensor(0.5 * rng.standard_normal((4, 4)), gradient=True)
    w2 = tape.tensor(0.5 * rng.standard_normal((4, 2)), gradient=True)
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2):
    def block(x):
        h = tape.matmul(x, w1)
        s = tape.sin(h)
        return tape.exp(s)

    a = block(x)
    y = tape.matmul(a, w2)
    return tape.multiply(y, y)


def recomputed(x, w1, w2):
    def block(x):
        h = tape.matmul(x, w1)
        s = tape.sin(h)
        return tape.exp(s)

    recomputed_block = tape.recompute(block)
    a = recomputed_block(x)
    y = tape.matmul(a, w2)
    return tape.multiply(y, y)


def run(forward):
    values = inputs()
    outputs = forward(**values)
    loss = tape.sum(outputs)
    names = ["w1", "w2"]
    wrt = [values["w1"], values["w2"]]
    first = tape.gradient(loss, wrt)
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": dict(zip(names, first, strict=True)),
    }


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
