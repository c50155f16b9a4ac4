"""A variable that is passed to a recomputed function and is also captured by it."""

import tensorflow as tf


def plain(function):
    return function


recomputed = tf.recompute_grad


def run(wrap):
    variable = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        result = wrap(lambda given: given * variable)(variable)
    return {"result": result, "gradient": tape.gradient(result, variable)}
