"""A function is recomputed for a gradient of zeros, because the next one stops the gradient."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf

calls = []


def first(x):
    calls.append(x)
    return tf.sin(x)


def second(y, w):
    return tf.stop_gradient(y) * w


x, w = tf.constant(2.0), tf.constant(3.0)
with tf.GradientTape() as tape:
    tape.watch([x, w])
    z = keras.remat(second)(keras.remat(first)(x), w)
tape.gradient(z, [x, w])
assert len(calls) > 1
