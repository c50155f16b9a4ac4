"""A recomputed convolution feeding a plain ReLU.

Case basics/conv-relu-gradient, variant autograd/arguments.
Source: mindspore.recompute, API page, example
"""

import autograd.numpy as np
from autograd import checkpoint, make_vjp
from autograd.scipy.signal import convolve


def conv2d(x, w, stride=1, same=False):
    if same:
        over = [size - 1 for size in w.shape[2:]]
        x = np.pad(
            x, ((0, 0), (0, 0), *((n // 2, n - n // 2) for n in over)), mode="constant"
        )
    turned = w[:, :, ::-1, ::-1]
    axes, channels = ([2, 3], [2, 3]), ([1], [1])
    y = convolve(x, turned, axes=axes, dot_axes=channels, mode="valid")
    return y[:, :, ::stride, ::stride]


def inputs():
    x = np.array(np.full((2, 2, 2, 2), 2.0), dtype=np.float32)
    w = np.array(np.full((2, 2, 2, 2), 1.0), dtype=np.float32)
    return {"x": x, "w": w}


def plain(x, w):
    def conv(x, w):
        y = conv2d(x, w, same=True)
        return y

    y = conv(x, w)
    z = np.maximum(y, 0)
    return z


def recomputed(x, w):
    def conv(x, w):
        y = conv2d(x, w, same=True)
        return y

    y = checkpoint(conv)(x, w)
    z = np.maximum(y, 0)
    return z


def run(forward):
    values = inputs()
    wanted = {"x": values["x"], "w": values["w"]}
    seen = []

    def loss_of(wanted):
        outputs = forward(**{**values, **wanted})
        seen.append(outputs)
        return np.sum(outputs)

    vjp, loss = make_vjp(loss_of)(wanted)
    outputs = seen[0]
    gradients = vjp(np.ones_like(loss))
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": {"x": gradients["x"], "w": gradients["w"]},
    }


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
