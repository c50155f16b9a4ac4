"""Compiled by XLA, a recomputed function without arguments is not run again."""

import tensorflow as tf

REASON = "What keeps a rerun apart from the forward is added to its arguments"


def products(w, x, block, arguments):
    """The products in the compiled program of a step."""

    @tf.function(autograph=False, jit_compile=True)
    def step(x, cotangent):
        with tf.GradientTape() as tape:
            y = block(x)(*arguments(x))
        return y, tape.gradient(y, w, output_gradients=cotangent)

    return step.experimental_get_compiler_ir(x, x)(stage="optimized_hlo").count(" dot(")


def differs(changed: bool) -> bool:
    """Whether there are the plain step's products; with the change, `x` is an argument."""
    w, x = tf.Variable(tf.ones([4, 4])), tf.ones([4, 4])

    def block(x):
        return (lambda x: tf.sin(x @ w)) if changed else (lambda: tf.sin(x @ w))

    def arguments(x):
        return (x,) if changed else ()

    recomputed = products(w, x, lambda x: tf.recompute_grad(block(x)), arguments)
    return recomputed == products(w, x, block, arguments)
