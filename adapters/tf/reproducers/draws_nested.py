"""With the tape around a `tf.function`, the rerun of a nested function draws other numbers."""

import tensorflow as tf

tf.random.set_seed(0)


def inner(x):
    return x * tf.random.uniform([4])


@tf.recompute_grad
def outer(x):
    return tf.recompute_grad(inner)(x)


x = tf.ones([4])
with tf.GradientTape() as tape:
    tape.watch(x)
    y = tf.function(outer, autograph=False)(x)
assert (tape.gradient(y, x) != y).numpy().any()
