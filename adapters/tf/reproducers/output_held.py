"""The outputs of a recomputed function are kept until backward although no gradient reads them."""

import gc
import weakref

import tensorflow as tf

made = []


@tf.recompute_grad
def block(x):
    output = tf.exp(x)
    made.append(weakref.ref(output))
    return tf.sin(x), output


x = tf.ones([4])
with tf.GradientTape() as tape:
    tape.watch(x)
    y = block(x)[0]
gc.collect()
alive = made[0]() is not None
del tape, y
assert alive
