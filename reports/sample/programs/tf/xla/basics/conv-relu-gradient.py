"""A recomputed convolution feeding a plain ReLU.

Case basics/conv-relu-gradient, variant tf/xla.
Source: mindspore.recompute, API page, example
"""

import numpy as np
import tensorflow as tf


def conv2d(x, w, strides, padding):
    # On the CPU, convolutions are computed in NHWC.
    x, w = tf.transpose(x, [0, 2, 3, 1]), tf.transpose(w, [2, 3, 1, 0])
    y = tf.nn.conv2d(x, w, strides=strides, padding=padding)
    return tf.transpose(y, [0, 3, 1, 2])


def inputs():
    x = tf.constant(np.full((2, 2, 2, 2), 2.0), dtype=tf.float32)
    w = tf.Variable(np.full((2, 2, 2, 2), 1.0), dtype=tf.float32)
    return {"x": x, "w": w}


def plain(x, w):
    def conv(x):
        y = conv2d(x, w, 1, "SAME")
        return y

    y = conv(x)
    z = tf.nn.relu(y)
    return z


def recomputed(x, w):
    def conv(x):
        y = conv2d(x, w, 1, "SAME")
        return y

    recomputed_conv = tf.recompute_grad(conv)
    y = recomputed_conv(x)
    z = tf.nn.relu(y)
    return z


def run(forward):
    values = inputs()

    # Cotangents are data: the graph optimizer cannot see through a product with them.
    @tf.function(autograph=False, jit_compile=True)
    def step(values, cotangent):
        sources = {"x": values["x"], "w": values["w"]}
        with tf.GradientTape() as tape:
            tape.watch(values["x"])
            outputs = forward(**values)
            loss = tf.reduce_sum(outputs)
        gradients = tape.gradient(loss, sources, output_gradients=cotangent)
        return outputs, loss, gradients

    outputs, loss, gradients = step(values, tf.constant(1.0))
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
