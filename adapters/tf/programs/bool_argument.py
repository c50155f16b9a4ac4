"""In a `tf.function`, a bool tensor as an argument, such as a mask, raises an error."""

import tensorflow as tf


def plain(function):
    return function


recomputed = tf.recompute_grad


def run(wrap):
    region = wrap(lambda x, mask: tf.where(mask, x * x, x))

    @tf.function
    def step(x, mask):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(region(x, mask))
        return tape.gradient(loss, x)

    return step(tf.constant([2.0, 3.0]), tf.constant([True, False]))
