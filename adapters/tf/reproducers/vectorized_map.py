"""Under `tf.vectorized_map`, nothing is recomputed; in a graph, captured variables get zeros."""

import tensorflow as tf

calls, w = [], tf.Variable([1.0, 2.0, 3.0])


def block(x):
    calls.append(x)
    return tf.exp(tf.sin(x * w))


def gradient(x, function):
    with tf.GradientTape() as tape:
        y = tf.vectorized_map(function, x)
    return tape.gradient(y, w)


x, counts = tf.ones([2, 3]), []
for function in (block, tf.recompute_grad(block)):
    calls.clear()
    gradient(x, function)
    counts.append(len(calls))
assert counts[0] == counts[1]
in_graph = tf.function(lambda x: gradient(x, tf.recompute_grad(block)), autograph=False)
assert not in_graph(x).numpy().any()
