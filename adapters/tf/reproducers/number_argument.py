"""A Python number that is an argument is a tensor of `int32` or `float32` in the recomputation."""

import tensorflow as tf


def block(x, factor):
    return x * factor


for dtype, factor in ((tf.float32, 3), (tf.float64, 3.0)):
    x = tf.constant([1.0, 2.0], dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = block(x, factor)
    assert tape.gradient(y, x).numpy().tolist() == [3.0, 3.0]

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.recompute_grad(block)(x, factor)
    try:
        tape.gradient(y, x)
    except tf.errors.InvalidArgumentError as error:
        assert "was expected to be a" in str(error)
    else:
        raise AssertionError("backward raised no error")
