"""With the tape around a tf.function, the rerun draws other numbers unless a seed is set."""

import tensorflow as tf

REASON = "Without tf.random.set_seed a random operation is seeded anew"


def differs(changed: bool) -> bool:
    """Whether the gradient is not the forward's; with the change, tf.random.set_seed was called."""
    tf.random.set_seed(0 if changed else None)
    block = tf.recompute_grad(lambda x: x * tf.random.uniform([4]))
    x = tf.ones([4])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.function(block, autograph=False)(x)  # at ones, y is the noise and so the gradient
    return bool((tape.gradient(y, x) != y).numpy().any())
