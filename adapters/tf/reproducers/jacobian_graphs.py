"""A Jacobian of a recomputed function leaves more tensors to the garbage collector than a plain one."""

import gc

import tensorflow as tf


def region(x):
    return tf.abs(tf.sin(x))


def alive():
    return sum(isinstance(o, tf.Tensor) for o in gc.get_objects())


def growth(function):
    def step():
        x = tf.constant([1.0, 2.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        tape.jacobian(y, x)

    step()
    gc.collect()
    gc.disable()
    before = alive()
    for _ in range(4):
        step()
    found = alive() - before
    gc.enable()
    return found


plain, recomputed = growth(region), growth(tf.recompute_grad(region))
assert recomputed > plain > 0
