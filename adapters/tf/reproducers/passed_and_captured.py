"""A variable that is an argument and is also captured gets only one part of its gradient."""

import tensorflow as tf

v = tf.Variable(3.0)


def block(passed):
    return passed * v


with tf.GradientTape(persistent=True) as tape:
    plain = block(v)
    recomputed = tf.recompute_grad(block)(v)
assert float(tape.gradient(plain, v)) == 6.0
assert float(tape.gradient(recomputed, v)) == 3.0
