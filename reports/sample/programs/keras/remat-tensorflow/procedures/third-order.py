"""The gradient of the gradient of a gradient.

Case procedures/third-order, variant keras/remat-tensorflow.
Source: tensorflow's custom gradient tests, testCustomGradientRecomputeGradHigherOrder
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import numpy as np
import tensorflow as tf
from keras import ops


def inputs():
    rng = np.random.default_rng(0)
    x = ops.convert_to_tensor(0.5 * rng.standard_normal((3, 4)), "float32")
    w = keras.Variable(
        0.5 * rng.standard_normal((4, 4)), dtype="float32", trainable=False
    )
    return {"x": x, "w": w}


def plain(x, w):
    def block(x):
        h = ops.matmul(x, w)
        s = ops.sin(h)
        a = ops.exp(s)
        return a

    a = block(x)
    z = ops.multiply(a, a)
    return z


def recomputed(x, w):
    def block(x):
        h = ops.matmul(x, w)
        s = ops.sin(h)
        a = ops.exp(s)
        return a

    remat_block = keras.remat(block)
    a = remat_block(x)
    z = ops.multiply(a, a)
    return z


def run(forward):
    values = inputs()
    wanted = {"x": values["x"]}
    with tf.GradientTape() as outermost:
        outermost.watch(wanted)
        with tf.GradientTape() as outer:
            outer.watch(wanted)
            with tf.GradientTape() as tape:
                tape.watch(wanted)
                outputs = forward(**values)
                loss = ops.sum(outputs)
            gradients = tape.gradient(loss, wanted)
            total = sum(ops.sum(gradient) for gradient in gradients.values())
        again = outer.gradient(total, wanted)
        total = sum(ops.sum(gradient) for gradient in again.values())
    again = outermost.gradient(total, wanted)
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": gradients,
        "again": again,
    }


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
