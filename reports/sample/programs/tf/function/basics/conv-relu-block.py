"""A convolution and its ReLU recomputed together.

Case basics/conv-relu-block, variant tf/function.
Source: the family of programs that every framework's page on recompute opens with
"""

import numpy as np
import tensorflow as tf


def conv2d(x, w, strides, padding):
    # On the CPU, convolutions are computed in NHWC.
    x, w = tf.transpose(x, [0, 2, 3, 1]), tf.transpose(w, [2, 3, 1, 0])
    y = tf.nn.conv2d(x, w, strides=strides, padding=padding)
    return tf.transpose(y, [0, 3, 1, 2])


def max_pool2d(x, size):
    x = tf.transpose(x, [0, 2, 3, 1])
    y = tf.nn.max_pool2d(x, size, strides=size, padding="VALID")
    return tf.transpose(y, [0, 3, 1, 2])


def avg_pool2d(x, size):
    x = tf.transpose(x, [0, 2, 3, 1])
    y = tf.nn.avg_pool2d(x, size, strides=size, padding="VALID")
    return tf.transpose(y, [0, 3, 1, 2])


def inputs():
    rng = np.random.default_rng(0)
    x = tf.constant(rng.standard_normal((2, 3, 6, 6)), dtype=tf.float32)
    w1 = tf.Variable(0.3 * rng.standard_normal((4, 3, 3, 3)), dtype=tf.float32)
    w2 = tf.Variable(0.3 * rng.standard_normal((2, 4, 3, 3)), dtype=tf.float32)
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2):
    def block(x):
        c = conv2d(x, w1, 1, "SAME")
        r = tf.nn.relu(c)
        return conv2d(r, w2, 1, "VALID")

    y = block(x)
    p = max_pool2d(y, 2)
    return avg_pool2d(p, 2)


def recomputed(x, w1, w2):
    def block(x):
        c = conv2d(x, w1, 1, "SAME")
        r = tf.nn.relu(c)
        return conv2d(r, w2, 1, "VALID")

    recomputed_block = tf.recompute_grad(block)
    y = recomputed_block(x)
    p = max_pool2d(y, 2)
    return avg_pool2d(p, 2)


def run(forward):
    values = inputs()

    # A constant cotangent would let the optimizer make one of forward and rerun.
    @tf.function(autograph=False)
    def step(values, cotangent):
        sources = {"x": values["x"], "w1": values["w1"], "w2": values["w2"]}
        with tf.GradientTape() as tape:
            tape.watch(values["x"])
            outputs = forward(**values)
            loss = tf.reduce_sum(outputs)
        gradients = tape.gradient(loss, sources, output_gradients=cotangent)
        return outputs, loss, gradients

    outputs, loss, gradients = step(values, tf.constant(1.0))
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
