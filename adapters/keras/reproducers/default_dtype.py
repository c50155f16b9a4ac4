"""A `floatx` that holds in forward alone is another one in the recomputation, which raises an error."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf
from keras import ops


def gradient(transform):
    function = transform(lambda x: ops.sin(ops.cast(x, keras.config.floatx())))
    x = tf.Variable([1.0])
    with tf.GradientTape() as tape:
        keras.config.set_floatx("float64")
        try:
            y = function(x)
        finally:
            keras.config.set_floatx("float32")
        loss = ops.sum(y)
    return tape.gradient(loss, x)


gradient(lambda function: function)
try:
    gradient(keras.remat)
except tf.errors.InvalidArgumentError as error:
    assert "was expected to be a double tensor" in str(error)
else:
    raise AssertionError("no error is raised")
