"""The gradient of the gradient of a gradient.

Case procedures/third-order, variant keras/scope-jax.
Source: tensorflow's custom gradient tests, testCustomGradientRecomputeGradHigherOrder
"""

import os

os.environ["KERAS_BACKEND"] = "jax"
import jax
import keras
import numpy as np
from keras import ops


def inputs():
    rng = np.random.default_rng(0)
    x = ops.convert_to_tensor(0.5 * rng.standard_normal((3, 4)), "float32")
    w = keras.Variable(
        0.5 * rng.standard_normal((4, 4)), dtype="float32", trainable=False
    )
    return {"x": x, "w": w}


def plain(x, w):
    class Block(keras.layers.Layer):
        def __init__(self, w):
            super().__init__()
            self.w = w

        def call(self, x):
            h = ops.matmul(x, self.w)
            s = ops.sin(h)
            a = ops.exp(s)
            return a

    block = Block(w)
    a = block(x)
    z = ops.multiply(a, a)
    return z


def recomputed(x, w):
    class Block(keras.layers.Layer):
        def __init__(self, w):
            super().__init__()
            self.w = w

        def call(self, x):
            h = ops.matmul(x, self.w)
            s = ops.sin(h)
            a = ops.exp(s)
            return a

    with keras.RematScope(mode="full"):
        block = Block(w)
    a = block(x)
    z = ops.multiply(a, a)
    return z


def run(forward):
    values = inputs()
    wanted = {"x": values["x"]}

    def loss_of(wanted):
        outputs = forward(**values | {"x": wanted["x"]})
        return ops.sum(outputs), outputs

    def total_of(wanted):
        loss, vjp, outputs = jax.vjp(loss_of, wanted, has_aux=True)
        (gradients,) = vjp(ops.ones_like(loss))
        total = sum(ops.sum(gradient) for gradient in gradients.values())
        return total, (loss, outputs, gradients)

    def second_total_of(wanted):
        total, vjp, taken = jax.vjp(total_of, wanted, has_aux=True)
        (second,) = vjp(ops.ones_like(total))
        return sum(ops.sum(gradient) for gradient in second.values()), taken

    total, vjp, (loss, outputs, gradients) = jax.vjp(
        second_total_of, wanted, has_aux=True
    )
    (again,) = vjp(ops.ones_like(total))
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
