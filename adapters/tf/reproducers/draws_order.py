"""With the tape around a `tf.function`, two reruns swap their random numbers."""

import numpy as np
import tensorflow as tf

tf.random.set_seed(0)


@tf.recompute_grad
def block(h, x):
    return h + x * tf.random.uniform([4])


@tf.function(autograph=False)
def step(x1, x2):
    h = block(tf.zeros([4]), x1)
    return h, block(h, x2)


x1, x2 = tf.ones([4]), tf.ones([4])
with tf.GradientTape() as tape:
    tape.watch([x1, x2])
    h, y = step(x1, x2)
# The gradient of each region's x is its noise.
first, second = (gradient.numpy() for gradient in tape.gradient(y, [x1, x2]))
drawn_first, drawn_second = h.numpy(), (y - h).numpy()
assert np.allclose(first, drawn_second)
assert np.allclose(second, drawn_first)
