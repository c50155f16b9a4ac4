"""The recomputation draws new random numbers, so the gradient does not match the output."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import tensorflow as tf

drawn = []


@keras.remat
def region(x):
    drawn.append(keras.random.dropout(tf.ones(64), 0.5))
    return x * drawn[-1]


keras.utils.set_random_seed(0)
x = tf.ones(64)
with tf.GradientTape() as tape:
    tape.watch(x)
    y = region(x)
gradient = tape.gradient(y, x)
assert np.array_equal(gradient, drawn[1])
assert not np.array_equal(gradient, drawn[0])
