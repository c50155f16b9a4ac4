"""The gradient of a sum of two arguments of a recomputed function is never freed."""

import gc

import tensorflow as tf

KIND = type(tf.constant(0.0))


def left(block):
    """How many tensors five steps leave behind."""

    def step():
        x, y = tf.ones([4]), tf.ones([4])
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            loss = tf.reduce_sum(tf.sin(block(tf.sin(x), tf.sin(y))))
        tape.gradient(loss, [x, y])

    def alive():
        gc.collect()
        return sum(isinstance(o, KIND) for o in gc.get_objects())

    step()
    before = alive()
    for _ in range(5):
        step()
    return alive() - before


assert left(lambda x, y: x + y) == 0
assert left(tf.recompute_grad(lambda x, y: x + y)) == 5
assert left(tf.recompute_grad(lambda x, y: x + 1.0 * y)) == 0
