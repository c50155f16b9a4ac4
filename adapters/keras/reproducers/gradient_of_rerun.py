"""The gradient belongs to the random numbers of the rerun, not to those of the forward run."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import tensorflow as tf

drawn = []


@keras.remat
def region(x):
    drawn.append(keras.random.uniform((8,)))
    return x * drawn[-1]


x = tf.ones(8)
with tf.GradientTape() as tape:
    tape.watch(x)
    y = region(x)
gradient = tape.gradient(y, x)
assert np.array_equal(gradient, drawn[1])
assert not np.array_equal(gradient, drawn[0])
