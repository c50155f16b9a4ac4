"""A tensor that a recomputed function reads by closure, or as a keyword argument, gets no gradient."""

import tensorflow as tf

x, y = tf.constant(2.0), tf.constant(3.0)


@tf.recompute_grad
def outer(x):
    h = x * x
    return tf.recompute_grad(lambda x: x * h)(x)


with tf.GradientTape(persistent=True) as tape:
    tape.watch([x, y])
    by_closure = tf.recompute_grad(lambda x: x * y)(x)
    by_keyword = tf.recompute_grad(lambda x, y: x * y)(x, y=y)
    nested = outer(x)
assert tape.gradient(by_closure, y) is None
assert tape.gradient(by_keyword, y) is None
# The gradient of x ** 3 is 12, of which h contributes 8.
assert float(tape.gradient(nested, x)) == 4.0
