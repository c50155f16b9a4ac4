"""In a `tf.function`, a region in a branch of `tf.cond` cannot be differentiated: an error is raised."""

import tensorflow as tf


def plain(function):
    return function


recomputed = tf.recompute_grad


def run(wrap):
    weight = tf.Variable(3.0)
    region = wrap(lambda x: tf.sin(x * weight))

    @tf.function
    def step(x, deep):
        with tf.GradientTape() as tape:
            result = tf.cond(deep, lambda: region(x), lambda: x * weight)
        return tape.gradient(result, weight)

    return step(tf.constant(2.0), tf.constant(True))
