"""A region before one that stops its gradient runs again, for a gradient of zeros."""

import tensorflow as tf

REASON = "The second region only stops the gradient of its argument"


def differs(changed: bool) -> bool:
    """Whether the first region runs again; with the change, the second is not recomputed."""
    calls = []

    @tf.recompute_grad
    def first(x):
        calls.append(x)
        return tf.sin(x)

    x, y = tf.constant(1.0), tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch([x, y])

        def second(h, y):
            return tf.stop_gradient(h) * y

        z = (second if changed else tf.recompute_grad(second))(first(x), y)
    tape.gradient(z, [x, y])
    return len(calls) == 2
