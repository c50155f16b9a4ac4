"""Arguments that are unused, or whose gradient is stopped, get zeros instead of None."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf

calls = []


@keras.remat
def before(x):
    calls.append(x)
    return tf.sin(x)


@keras.remat
def region(x, unread, stopped):
    return x * tf.stop_gradient(stopped)


values = [tf.constant(2.0), tf.constant(3.0), tf.constant(4.0)]
with tf.GradientTape() as tape:
    tape.watch(values)
    x, unread, stopped = values
    y = region(x, unread, before(stopped))
_, of_unread, of_stopped = tape.gradient(y, values)
assert float(of_unread) == float(of_stopped) == 0
assert len(calls) == 2
