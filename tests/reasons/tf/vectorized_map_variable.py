"""In a tf.function, a captured variable under tf.vectorized_map gets zeros for a gradient."""

import tensorflow as tf

REASON = (
    "tf.vectorized_map writes operations anew, but not those that are the same for every element"
)


def differs(changed: bool) -> bool:
    """Whether the gradient of `w` is all zeros; with the change, `w` is an argument."""
    w = tf.Variable([1.0, 2.0, 3.0])

    @tf.function(autograph=False)
    def gradient(x):
        with tf.GradientTape() as tape:
            if changed:
                block = tf.recompute_grad(lambda x, w: tf.sin(x * w))
                y = tf.vectorized_map(lambda x: block(x, w), x)
            else:
                y = tf.vectorized_map(tf.recompute_grad(lambda x: tf.sin(x * w)), x)
        return tape.gradient(y, w)

    return not gradient(tf.ones([2, 3])).numpy().any()
