"""On TensorFlow, a loss that a recomputed function keeps in a list has no gradient."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf

kept = []


def block(x, w):
    h = x * w
    kept.append(h * h)
    return keras.ops.sin(h)


def gradient(run):
    x, w = tf.constant(2.0), tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(w)
        loss = run(x, w) + kept.pop()
    return float(tape.gradient(loss, w))


plain, recomputed = gradient(block), gradient(keras.remat(block))
assert abs(plain - 25.92) < 0.01
assert abs(recomputed - 1.92) < 0.01
