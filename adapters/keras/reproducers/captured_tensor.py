"""A tensor that a function under `keras.remat` reads by closure gets no gradient."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf

x, y = tf.constant(2.0), tf.constant(3.0)
with tf.GradientTape() as tape:
    tape.watch([x, y])
    z = keras.remat(lambda x: x * y)(x)
assert tape.gradient(z, y) is None
