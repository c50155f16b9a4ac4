"""A recomputed convolution feeding a plain ReLU.

Case basics/conv-relu-gradient, variant reference/float64.
Source: mindspore.recompute, API page, example
"""

import numpy as np
import tape


def inputs():
    x = tape.tensor(np.full((2, 2, 2, 2), 2.0), gradient=True)
    w = tape.tensor(np.full((2, 2, 2, 2), 1.0), gradient=True)
    return {"x": x, "w": w}


def plain(x, w):
    def conv(x):
        y = tape.conv2d(x, w, padding="same")
        return y

    y = conv(x)
    z = tape.relu(y)
    return z


def recomputed(x, w):
    def conv(x):
        y = tape.conv2d(x, w, padding="same")
        return y

    recomputed_conv = tape.recompute(conv)
    y = recomputed_conv(x)
    z = tape.relu(y)
    return z


def run(forward):
    values = inputs()
    outputs = forward(**values)
    loss = tape.sum(outputs)
    names = ["x", "w"]
    wrt = [values[name] for name in names]
    first = tape.gradient(loss, wrt)
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": dict(zip(names, first, strict=True)),
    }


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
