"""A sparse tensor as an argument of a region, such as a graph, raises an error in backward."""

import tensorflow as tf


def plain(function):
    return function


recomputed = tf.recompute_grad


def run(wrap):
    weight, graph = tf.Variable(tf.random.normal([3, 2])), tf.sparse.eye(3)
    region = wrap(lambda graph: tf.sin(tf.sparse.sparse_dense_matmul(graph, weight)))
    with tf.GradientTape() as tape:
        result = region(graph)
    return tape.gradient(result, weight)
