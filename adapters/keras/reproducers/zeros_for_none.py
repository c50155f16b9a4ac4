"""An argument that is not read, or whose gradient is stopped, gets zeros instead of None."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf


def region(x, stopped, unread):
    return x * tf.stop_gradient(stopped)


values = [tf.constant(2.0), tf.constant(3.0), tf.constant(4.0)]
with tf.GradientTape() as tape:
    tape.watch(values)
    y = keras.remat(region)(*values)
gradients = tape.gradient(y, values)[1:]
assert all(g is not None and float(g) == 0 for g in gradients)
