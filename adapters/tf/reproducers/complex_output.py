"""In a graph, a recomputed function whose first output is complex cannot be differentiated."""

import tensorflow as tf


@tf.recompute_grad
def region(x):
    c = tf.complex(tf.sin(x), tf.exp(x))
    return c, tf.math.real(c)


@tf.function
def gradient(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        one, other = region(x)
        loss = tf.math.real(one) + tf.math.real(other)
    return tape.gradient(loss, x)


raised = False
try:
    gradient(tf.constant(1.0))
except TypeError:
    raised = True
assert raised
