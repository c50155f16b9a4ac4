"""The rerun draws other random numbers than the forward run."""

import tensorflow as tf

tf.random.set_seed(0)
draws = []


@tf.recompute_grad
def block(x):
    draws.append(tf.random.uniform([4]))
    return x * draws[-1]


x = tf.ones([4])
with tf.GradientTape() as tape:
    tape.watch(x)
    y = block(x)
tape.gradient(y, x)
forward, rerun = draws
assert not (forward.numpy() == rerun.numpy()).all()
