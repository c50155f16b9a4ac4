"""Nothing runs again of a recomputed function under tf.vectorized_map, under tf.map_fn it does."""

import tensorflow as tf

REASON = "tf.vectorized_map writes the operations of the function anew, without the gradient"


def differs(changed: bool) -> bool:
    """Whether backward does not call the function; with the change, tf.map_fn maps it."""
    calls = []

    def block(x):
        calls.append(x)
        return tf.exp(tf.sin(x))

    x = tf.ones([3, 4])
    mapped = tf.map_fn if changed else tf.vectorized_map
    counts = []
    for function in (block, tf.recompute_grad(block)):
        calls.clear()
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = mapped(function, x)
        tape.gradient(y, x)
        counts.append(len(calls))
    return counts[0] == counts[1]
