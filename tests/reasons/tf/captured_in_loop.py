"""A function under recompute_grad that captures a variable is the body of a loop."""

import tensorflow as tf

REASON = "The gradient of a while loop keeps what its body computes"


def differs(changed: bool) -> bool:
    """Whether the gradient is refused; with the change, the variable's value is an argument."""
    w = tf.Variable(tf.fill((3, 3), 0.1))
    captures = tf.recompute_grad(lambda h: tf.sin(h @ w))
    takes = tf.recompute_grad(lambda h, w: tf.sin(h @ w))

    def body(i, h, value):
        return i + 1, takes(h, value) if changed else captures(h), value

    @tf.function(autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            first = (tf.constant(0), x, tf.convert_to_tensor(w))
            _, h, _ = tf.while_loop(lambda i, *_: i < 4, body, first)
            loss = tf.reduce_sum(h)
        return tape.gradient(loss, x)

    try:
        step(tf.ones((2, 3)))
    except ValueError as error:
        return "internal_capture_to_output" in str(error)
    return False
