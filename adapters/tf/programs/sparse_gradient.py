"""The gradient of an embedding in a region is a dense tensor, and not `tf.IndexedSlices`."""

import tensorflow as tf


def plain(function):
    return function


recomputed = tf.recompute_grad


def run(wrap):
    table, ids = tf.Variable(tf.random.normal([5, 4])), tf.constant([1, 2, 1])
    region = wrap(lambda ids: tf.tanh(tf.nn.embedding_lookup(table, ids)))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(region(ids) ** 2)
    gradient = tape.gradient(loss, table)
    kind = type(gradient).__name__
    return {"gradient": tf.convert_to_tensor(gradient), "sparse": kind == "IndexedSlices"}
