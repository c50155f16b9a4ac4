"""A Jacobian raises if a region that is recomputed calls another one with a keyword argument."""

import tensorflow as tf

inner = tf.recompute_grad(lambda x, k: tf.sin(x) * k)
outer = tf.recompute_grad(lambda x: inner(x, k=x))
x = tf.constant([1.0, 2.0])
with tf.GradientTape(persistent=True) as tape:
    tape.watch(x)
    y = outer(x)
tape.jacobian(y, x, experimental_use_pfor=False)
try:
    tape.jacobian(y, x)
except ValueError as error:
    assert "vectorizing the jacobian" in str(error)
    assert "supports keywords arguments only when eager" in str(error.__cause__)
else:
    raise AssertionError("no error is raised")
