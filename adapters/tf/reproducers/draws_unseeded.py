"""With the tape around a `tf.function`, an unseeded rerun draws other numbers."""

import tensorflow as tf

tf.random.set_seed(None)
block = tf.recompute_grad(lambda x: x * tf.random.uniform([4]))
x = tf.ones([4])
with tf.GradientTape() as tape:
    tape.watch(x)
    y = tf.function(block, autograph=False)(x)
assert (tape.gradient(y, x) != y).numpy().any()
