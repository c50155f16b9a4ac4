"""The gradient of an outer function lacks what an inner `keras.remat` function captures from it."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf


def outer(x, how):
    y = tf.sin(x)
    return how(lambda x: x * y)(x)


def gradient(how):
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        z = how(lambda x: outer(x, how))(x)
    return float(tape.gradient(z, x))


assert abs(gradient(keras.remat) - gradient(lambda f: f)) > 0.001
