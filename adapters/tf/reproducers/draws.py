"""The recomputation draws new random numbers, so the gradient does not match the output."""

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
gradient = tape.gradient(y, x).numpy()
forward, rerun = (draw.numpy() for draw in draws)
assert (gradient == rerun).all()
assert (gradient != forward).any()
