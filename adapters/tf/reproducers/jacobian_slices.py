"""The Jacobian of a lookup in what a recomputed function returns cannot be computed."""

import tensorflow as tf


def jacobian(block):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.gather(block(x), [0, 1, 0])
    return tape.jacobian(y, x)


assert jacobian(tf.sin).shape == (3, 2, 2, 2)
try:
    jacobian(tf.recompute_grad(tf.sin))
except TypeError as error:
    assert "IndexedSlices" in str(error)
else:
    raise AssertionError("backward raised no error")
