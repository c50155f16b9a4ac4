"""A Python number that is an argument is a tensor of `int32` or `float32` in the recomputation."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf
from keras import ops


def gradient(transform, block, dtype, factor):
    x = tf.constant([0.5], dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = transform(block)(x, factor)
    return tape.gradient(y, x)


def scaled(x, factor):
    return ops.tanh(ops.multiply(x, factor))


def raises(block, dtype, factor):
    gradient(lambda function: function, block, dtype, factor)  # it does not without recompute
    try:
        gradient(keras.remat, block, dtype, factor)
    except tf.errors.InvalidArgumentError as error:
        return "was expected to be a" in str(error)
    return False


assert raises(lambda x, n: x + n, "float32", 3)
assert raises(scaled, "bfloat16", 0.3)
plain, recomputed = (gradient(t, scaled, "float64", 0.3) for t in (lambda f: f, keras.remat))
assert 1e-12 < abs(float(plain[0] - recomputed[0])) < 1e-6  # rounded to float32
