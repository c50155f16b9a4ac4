"""A region of which nothing asks for a gradient runs again where the forward pass alone is compiled."""

import tensorflow as tf

REASON = "The backward of a compiled forward is made for all that its graph is given"


def differs(changed: bool) -> bool:
    """Whether it runs again; with the change, the gradient is taken inside of the compiled function."""
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

    if changed:
        tf.function(lambda x: step(x, forward), autograph=False)(tf.ones([2]))
    else:
        step(tf.ones([2]), tf.function(forward, autograph=False))
    return len(runs) == 2
