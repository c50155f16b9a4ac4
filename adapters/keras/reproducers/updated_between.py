"""A variable that is updated before backward changes the gradient, because the rerun reads it anew."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf


def gradient(how):
    x, w = tf.constant(2.0), keras.Variable(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = how(lambda x: tf.sin(x * w))(x)
    w.assign(5.0)
    return float(tape.gradient(y, x))


assert abs(gradient(keras.remat) - gradient(lambda f: f)) > 0.001
