"""A compiled forward pass cannot be differentiated where a recomputed function gives integers."""

import tensorflow as tf

REASON = "The backward of a compiled forward asks for the gradient of every output"


def differs(changed: bool) -> bool:
    """Whether the call under a tape raises an error; with the change, the second output is floating."""
    kind = tf.float32 if changed else tf.int32
    block = tf.recompute_grad(lambda x: (tf.sin(x), tf.cast(tf.stop_gradient(x), kind)))

    @tf.function(autograph=False)
    def forward(x):
        y, number = block(x)
        return y + tf.cast(number, tf.float32)

    x = tf.ones([2])
    with tf.GradientTape() as tape:
        tape.watch(x)
        try:
            forward(x)
        except ValueError as error:
            return "None values not supported" in str(error)
    return False
