"""The gradient function of tf.custom_gradient holds what a region returned until backward."""

import gc
import weakref
from types import FunctionType

import tensorflow as tf

REASON = "The region's output is kept until backward"


def differs(changed: bool) -> bool:
    """Whether the unused output is alive; with the change, the function's hold on it is taken away."""
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
    if changed:
        for function in gc.get_objects():
            if type(function) is FunctionType and function.__name__ == "actual_grad_fn":
                held = function.__code__.co_freevars.index("result")
                function.__closure__[held].cell_contents = None
    gc.collect()
    alive = made[0]() is not None
    del tape, y
    return alive
