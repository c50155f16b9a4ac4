"""A `tf.function` with a variable of its own, in a region."""

import tensorflow as tf


def plain(function):
    return function


recomputed = tf.recompute_grad


def run(wrap):
    weight, x = tf.Variable(tf.random.normal([4, 4])), tf.random.normal([2, 4])

    @tf.function
    def layer(x):
        return tf.sin(x @ weight)

    region = wrap(lambda x: layer(layer(x)))
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = region(x)
    return {"result": result, "gradients": tape.gradient(result, [x, weight])}
