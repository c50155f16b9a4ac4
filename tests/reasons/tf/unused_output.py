"""What the gradient of an unused output needs is run again, and would not be needed."""

import tensorflow as tf

REASON = "The output that nothing uses is given a gradient of zeros"


def differs(changed: bool) -> bool:
    """Whether the compiled step has a second sine; with the change, the output is not returned."""

    @tf.recompute_grad
    def block(x):
        h = tf.sin(x)
        return h if changed else (h, tf.exp(h))

    @tf.function(autograph=False, jit_compile=True)
    def step(x, cotangent):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = block(x) if changed else block(x)[0]
        return y, tape.gradient(y, x, output_gradients=cotangent)

    x = tf.ones([4])
    return step.experimental_get_compiler_ir(x, x)(stage="optimized_hlo").count(" sine(") > 1
