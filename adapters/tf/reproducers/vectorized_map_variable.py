"""Under `tf.vectorized_map` in a `tf.function`, a captured variable gets zeros as its gradient."""

import tensorflow as tf

w = tf.Variable([1.0, 2.0, 3.0])


@tf.function(autograph=False)
def gradient(x):
    with tf.GradientTape() as tape:
        y = tf.vectorized_map(tf.recompute_grad(lambda x: tf.sin(x * w)), x)
    return tape.gradient(y, w)


assert not gradient(tf.ones([2, 3])).numpy().any()
