"""The gradient of the gradient of a gradient.

Case procedures/third-order, variant reference/float64.
Source: tensorflow's custom gradient tests, testCustomGradientRecomputeGradHigherOrder
"""

import numpy as np
import tape


def inputs():
    rng = np.random.default_rng(0)
    x = tape.tensor(0.5 * rng.standard_normal((3, 4)), gradient=True)
    w = tape.tensor(0.5 * rng.standard_normal((4, 4)))
    return {"x": x, "w": w}


def plain(x, w):
    def block(x):
        h = tape.matmul(x, w)
        s = tape.sin(h)
        a = tape.exp(s)
        return a

    a = block(x)
    z = tape.multiply(a, a)
    return z


def recomputed(x, w):
    def block(x):
        h = tape.matmul(x, w)
        s = tape.sin(h)
        a = tape.exp(s)
        return a

    recomputed_block = tape.recompute(block)
    a = recomputed_block(x)
    z = tape.multiply(a, a)
    return z


def run(forward):
    values = inputs()
    outputs = forward(**values)
    loss = tape.sum(outputs)
    names = ["x"]
    wrt = [values[name] for name in names]
    first = tape.gradient(loss, wrt, create_graph=True)
    total = tape.total(first)
    total = tape.total(tape.gradient(total, wrt, create_graph=True))
    second = tape.gradient(total, wrt)
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": dict(zip(names, first, strict=True)),
        "again": dict(zip(names, second, strict=True)),
    }


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
