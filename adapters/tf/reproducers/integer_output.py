"""With the tape around a `tf.function`, a recomputed function that returns integers raises."""

import tensorflow as tf


@tf.recompute_grad
def block(x):
    return tf.sin(x), tf.cast(tf.stop_gradient(x), tf.int32)


@tf.function(autograph=False)
def forward(x):
    y, number = block(x)
    return y + tf.cast(number, tf.float32)


x = tf.ones([2])
with tf.GradientTape() as tape:
    tape.watch(x)
    try:
        forward(x)
    except ValueError as error:
        assert "None values not supported" in str(error)
    else:
        raise AssertionError("no error is raised")
