"""Compiled by XLA, nothing runs again where the loss does not use the first output of a region."""

import tensorflow as tf

REASON = (
    "What keeps a rerun apart from the forward is made of the gradient of the region's first output"
)


def products(block):
    """The products in the compiled program of a step, whose loss uses what is named "used"."""
    w, x = tf.Variable(tf.ones([4, 4])), tf.ones([4, 4])

    @tf.function(autograph=False, jit_compile=True)
    def step(x, cotangent):
        with tf.GradientTape() as tape:
            y = block(x, w)
        return y, tape.gradient(y, w, output_gradients=cotangent)

    return step.experimental_get_compiler_ir(x, x)(stage="optimized_hlo").count(" dot(")


def differs(changed: bool) -> bool:
    """Whether there are the plain step's products; with the change, the used output is the first."""

    def block(x, w):
        h = tf.sin(x @ w)
        used, unused = tf.exp(h), tf.cos(h)
        return (used, unused) if changed else (unused, used)

    def call(block):
        return lambda x, w: block(x, w)[0 if changed else 1]

    return products(call(block)) == products(call(tf.recompute_grad(block)))
