"""Under `tf.vectorized_map`, nothing is recomputed."""

import tensorflow as tf

calls = []


def block(x):
    calls.append(x)
    return tf.exp(tf.sin(x))


x = tf.ones([3, 4])
counts = []
for function in (block, tf.recompute_grad(block)):
    calls.clear()
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.vectorized_map(function, x)
    tape.gradient(y, x)
    counts.append(len(calls))
assert counts[0] == counts[1]
