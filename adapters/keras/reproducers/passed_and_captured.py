"""A variable that is an argument and is also captured gets only one part of its gradient."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf

v = keras.Variable(3.0)


def block(passed):
    return passed * v


with tf.GradientTape(persistent=True) as tape:
    plain = block(v.value)
    recomputed = keras.remat(block)(v.value)
assert float(tape.gradient(plain, v.value)) == 6.0
assert float(tape.gradient(recomputed, v.value)) == 3.0
