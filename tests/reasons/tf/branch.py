"""In a graph, tf.recompute_grad makes a tensor of a truth value, on which Python cannot branch."""

import tensorflow as tf

REASON = "In a graph, recompute_grad makes a tensor of every argument"


def differs(changed: bool) -> bool:
    """Whether the call raises; with the change, the truth value is bound beforehand."""

    def block(x, double):
        return 2.0 * x if double else x

    @tf.function(autograph=False)
    def call(x):
        if changed:
            return tf.recompute_grad(lambda x: block(x, True))(x)
        return tf.recompute_grad(block)(x, True)

    try:
        call(tf.constant(1.0))
    except tf.errors.OperatorNotAllowedInGraphError:
        return True
    return False
