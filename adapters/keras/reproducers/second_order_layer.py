"""On TensorFlow, a second-order gradient of a recomputed layer raises an unrelated `AttributeError`."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf


class Cube(keras.layers.Layer):
    def call(self, x):
        return x * x * x


x = tf.constant(2.0)
with tf.GradientTape() as outer:
    outer.watch(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = keras.remat(Cube())(x) ** 2
    first = tape.gradient(y, x)
raised = None
try:
    outer.gradient(first, x)
except (AttributeError, NotImplementedError) as error:
    raised = error
assert isinstance(raised, AttributeError)
assert "__name__" in str(raised)
