"""With mixed precision, a layer reads float32 variables when recomputed, and backward raises."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import tensorflow as tf

with keras.RematScope("full"):
    layer = keras.layers.Dense(2, dtype="mixed_bfloat16")
x = tf.ones((2, 3))
layer.build(x.shape)
with tf.GradientTape() as tape:
    y = layer(x)
    loss = tf.reduce_sum(y)
try:
    tape.gradient(loss, layer.trainable_weights[0].value)
except tf.errors.InvalidArgumentError as error:
    assert "bfloat16" in str(error)
else:
    raise AssertionError("no error is raised")
