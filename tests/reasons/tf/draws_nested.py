"""With the tape around a tf.function, the rerun of a nested region draws other numbers."""

import tensorflow as tf

REASON = (
    "The graph of the backward draws what the graph of the forward drew, in the same order, which"
)


def differs(changed: bool) -> bool:
    """Whether the gradient is not the forward's; with the change, only the outer one is recomputed."""
    tf.random.set_seed(0)

    def inner(x):
        return x * tf.random.uniform([4])

    @tf.recompute_grad
    def outer(x):
        return (inner if changed else tf.recompute_grad(inner))(x)

    x = tf.ones([4])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.function(outer, autograph=False)(x)  # at ones, y is the noise and so the gradient
    return bool((tape.gradient(y, x) != y).numpy().any())
