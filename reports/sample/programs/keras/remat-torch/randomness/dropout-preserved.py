"""Dropout inside a region, its random state preserved.

Case randomness/dropout-preserved, variant keras/remat-torch.
Source: torch.utils.checkpoint, preserve_rng_state; Paddle's recompute, preserve_rng_state
"""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
from keras import ops


def inputs():
    rng = np.random.default_rng(0)
    x = ops.convert_to_tensor(rng.standard_normal((8, 16)), "float32")
    w1 = keras.Variable(0.3 * rng.standard_normal((16, 16)), dtype="float32")
    w2 = keras.Variable(0.3 * rng.standard_normal((16, 4)), dtype="float32")
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2):
    def block(x):
        h = ops.matmul(x, w1)
        d = keras.random.dropout(h, 0.5)
        y = ops.matmul(d, w2)
        return y, d

    y, d = block(x)
    z = ops.multiply(y, y)
    return z, d


def recomputed(x, w1, w2):
    def block(x):
        h = ops.matmul(x, w1)
        d = keras.random.dropout(h, 0.5)
        y = ops.matmul(d, w2)
        return y, d

    remat_block = keras.remat(block)
    y, d = remat_block(x)
    z = ops.multiply(y, y)
    return z, d


def run(forward):
    keras.utils.set_random_seed(0)
    values = inputs()
    wanted = {
        "x": values["x"].requires_grad_(),
        "w1": values["w1"].value,
        "w2": values["w2"].value,
    }
    outputs = forward(**values)
    loss = ops.sum(outputs[0])
    loss.backward()
    gradients = {name: value.grad for name, value in wanted.items()}
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
