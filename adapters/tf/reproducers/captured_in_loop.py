"""A recomputed function that captures a variable cannot be the body of a `tf.while_loop`."""

import tensorflow as tf

w = tf.Variable(tf.fill((3, 3), 0.1))
captures = tf.recompute_grad(lambda h: tf.sin(h @ w))


def body(i, h):
    return i + 1, captures(h)


@tf.function(autograph=False)
def step(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        _, h = tf.while_loop(lambda i, h: i < 4, body, (tf.constant(0), x))
        loss = tf.reduce_sum(h)
    return tape.gradient(loss, x)


try:
    step(tf.ones((2, 3)))
except ValueError as error:
    assert "internal_capture_to_output" in str(error)
else:
    raise AssertionError("no error is raised")
