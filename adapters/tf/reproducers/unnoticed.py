"""A function that computes something else in the rerun gets another gradient, without an error."""

import tensorflow as tf

factors = iter([2.0, 5.0])
x = tf.constant(1.0)
with tf.GradientTape() as tape:
    tape.watch(x)
    y = tf.recompute_grad(lambda x: next(factors) * x)(x)
assert float(tape.gradient(y, x)) != 2.0
