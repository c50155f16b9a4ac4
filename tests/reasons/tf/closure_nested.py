"""What an inner recomputed function reads by closure is missing from the outer one's gradient."""

import tensorflow as tf

REASON = (
    "recompute_grad passes gradients to its arguments and to trainable variables alone. What the"
)


def differs(changed: bool) -> bool:
    """Whether the gradient is wrong; with the change, the inner function has `h` as an argument."""

    @tf.recompute_grad
    def outer(x):
        h = x * x
        if changed:
            return tf.recompute_grad(lambda x, h: x * h)(x, h)
        return tf.recompute_grad(lambda x: x * h)(x)

    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = outer(x)  # x ** 3
    return float(tape.gradient(y, x)) != 12.0
