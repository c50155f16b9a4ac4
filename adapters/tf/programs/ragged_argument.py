"""A ragged tensor as an argument of a region raises an error."""

import tensorflow as tf


def plain(function):
    return function


recomputed = tf.recompute_grad


def run(wrap):
    weight, words = tf.Variable(2.0), tf.ragged.constant([[1.0, 2.0], [3.0]])
    region = wrap(lambda words: tf.reduce_sum(tf.sin(words * weight)))
    with tf.GradientTape() as tape:
        result = region(words)
    return tape.gradient(result, weight)
