"""A function is recomputed although no gradient needs it, if only the forward pass is compiled."""

import tensorflow as tf

runs = []
head = tf.Variable([2.0, 3.0])


def counted(x):
    runs.append(1)
    return x


@tf.recompute_grad
def block(x):
    return tf.exp(tf.py_function(counted, [tf.sin(x)], tf.float32))


def forward(x):
    return block(x) * head


def step(x, forward):
    with tf.GradientTape() as tape:
        y = forward(x)
    return tape.gradient(y, head)


step(tf.ones([2]), tf.function(forward, autograph=False))
assert len(runs) == 2
