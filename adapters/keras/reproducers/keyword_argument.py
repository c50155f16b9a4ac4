"""A tensor passed to a function under `keras.remat` by keyword gets no gradient."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf

x, y = tf.constant(2.0), tf.constant(3.0)
region = keras.remat(lambda x, y: x * y)
with tf.GradientTape() as tape:
    tape.watch([x, y])
    z = region(x, y=y)
assert tape.gradient(z, y) is None
