"""A convolution and its ReLU recomputed together.

Case basics/conv-relu-block, variant autograd/arguments.
Source: the family of programs that every framework's page on recompute opens with
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


def max_pool2d(x, size):
    n, c, h, w = (x.shape[0], x.shape[1], x.shape[2] // size, x.shape[3] // size)
    windows = x[:, :, : h * size, : w * size]
    return np.max(np.reshape(windows, (n, c, h, size, w, size)), axis=(3, 5))


def avg_pool2d(x, size):
    n, c, h, w = (x.shape[0], x.shape[1], x.shape[2] // size, x.shape[3] // size)
    windows = x[:, :, : h * size, : w * size]
    return np.mean(np.reshape(windows, (n, c, h, size, w, size)), axis=(3, 5))


def inputs():
    rng = np.random.default_rng(0)
    x = np.array(rng.standard_normal((2, 3, 6, 6)), dtype=np.float32)
    w1 = np.array(0.3 * rng.standard_normal((4, 3, 3, 3)), dtype=np.float32)
    w2 = np.array(0.3 * rng.standard_normal((2, 4, 3, 3)), dtype=np.float32)
    return {"x": x, "w1": w1, "w2": w2}


def block(x, w1, w2):
    c = conv2d(x, w1, same=True)
    r = np.maximum(c, 0)
    return conv2d(r, w2)


def plain(x, w1, w2):
    y = block(x, w1, w2)
    p = max_pool2d(y, 2)
    return avg_pool2d(p, 2)


def recomputed(x, w1, w2):
    y = checkpoint(block)(x, w1, w2)
    p = max_pool2d(y, 2)
    return avg_pool2d(p, 2)


def run(forward):
    values = inputs()
    seen = []

    def loss_of(values):
        outputs = forward(**values)
        seen.append(outputs)
        return np.sum(outputs)

    vjp, loss = make_vjp(loss_of)(values)
    outputs = seen[0]
    gradients = vjp(np.ones_like(loss))
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
