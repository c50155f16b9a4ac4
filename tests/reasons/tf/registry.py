"""A variable that a recomputed region captures in a tf.function stays alive for good."""

import gc
import weakref

import tensorflow as tf
from tensorflow.python.framework import ops

REASON = "Each time that a graph is traced, a recomputed region enters two gradient functions"


def captured():
    """A variable that was captured by a region in a traced step."""
    w = tf.Variable(2.0)

    @tf.function(autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            y = tf.recompute_grad(lambda x: x * w)(x)
        return tape.gradient(y, w)

    step(tf.constant(3.0))
    return weakref.ref(w)


def differs(changed: bool) -> bool:
    """Whether the variable is alive; with the change, the two functions are taken out by hand."""
    registry = ops.gradient_registry._registry
    before = set(registry)
    variable = captured()
    entered = set(registry) - before
    if changed:
        for name in entered:
            del registry[name]
    gc.collect()
    return variable() is not None and len(entered) == 2
