"""A variable that a recomputed function captures in a `tf.function` is never freed."""

import gc
import weakref

import tensorflow as tf
from tensorflow.python.framework import ops


def captured():
    """A variable that a recomputed function captured in a traced step."""
    w = tf.Variable(2.0)

    @tf.function(autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            y = tf.recompute_grad(lambda x: x * w)(x)
        return tape.gradient(y, w)

    step(tf.constant(3.0))
    return weakref.ref(w)


before = set(ops.gradient_registry._registry)
variable = captured()
entered = set(ops.gradient_registry._registry) - before
gc.collect()
assert variable() is not None
assert len(entered) == 2
