"""A tensor that a function captures, or has as a keyword argument, gets no gradient."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf

x, y = tf.constant(2.0), tf.constant(3.0)


def outer(x):
    h = x * x
    return keras.remat(lambda x: x * h)(x)


with tf.GradientTape(persistent=True) as tape:
    tape.watch([x, y])
    by_closure = keras.remat(lambda x: x * y)(x)
    by_keyword = keras.remat(lambda x, y: x * y)(x, y=y)
    nested = keras.remat(outer)(x)
assert tape.gradient(by_closure, y) is None
assert tape.gradient(by_keyword, y) is None
# The gradient of x ** 3 is 12, of which h contributes 8.
assert float(tape.gradient(nested, x)) == 4.0
