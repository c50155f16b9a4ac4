"""A function under `keras.remat` that also returns a number cannot be differentiated."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf

region = keras.remat(lambda x: (tf.sin(x), 3))
x = tf.constant(2.0)
with tf.GradientTape() as tape:
    tape.watch(x)
    y, number = region(x)
assert isinstance(number, tf.Tensor)
try:
    tape.gradient(y, x)
except AttributeError as error:
    assert "'int' object has no attribute 'dtype'" in str(error)
else:
    raise AssertionError("no error is raised")
