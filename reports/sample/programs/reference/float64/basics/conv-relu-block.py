"""A convolution and its ReLU recomputed together.

Case basics/conv-relu-block, variant reference/float64.
Source: the family of programs that every framework's page on recompute opens with
"""

import numpy as np
import tape


def inputs():
    rng = np.random.default_rng(0)
    x = tape.tensor(rng.standard_normal((2, 3, 6, 6)), gradient=True)
    w1 = tape.tensor(0.3 * rng.standard_normal((4, 3, 3, 3)), gradient=True)
    w2 = tape.tensor(0.3 * rng.standard_normal((2, 4, 3, 3)), gradient=True)
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2):
    def block(x):
        c = tape.conv2d(x, w1, padding="same")
        r = tape.relu(c)
        return tape.conv2d(r, w2)

    y = block(x)
    p = tape.max_pool2d(y, size=2)
    return tape.avg_pool2d(p, size=2)


def recomputed(x, w1, w2):
    def block(x):
        c = tape.conv2d(x, w1, padding="same")
        r = tape.relu(c)
        return tape.conv2d(r, w2)

    recomputed_block = tape.recompute(block)
    y = recomputed_block(x)
    p = tape.max_pool2d(y, size=2)
    return tape.avg_pool2d(p, size=2)


def run(forward):
    values = inputs()
    outputs = forward(**values)
    loss = tape.sum(outputs)
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
