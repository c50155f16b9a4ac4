"""What a region returned is kept until backward, though no gradient reads it."""

import weakref

import keras
import tensorflow as tf

ENVIRONMENT = {"KERAS_BACKEND": "tensorflow"}
REASON = "The gradient function of tf.custom_gradient"


def own_rule(function):
    """The function with a gradient of its own, and no recompute."""
    return tf.custom_gradient(lambda x: (function(x), lambda *gradients: gradients[0] * tf.cos(x)))


def kept(how) -> bool:
    made = []

    def region(x):
        outputs = tf.sin(x), tf.cos(x)
        made.extend(map(weakref.ref, outputs))
        return outputs

    x = tf.ones(8)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = how(region)(x)[0] + 1
    found = [ref() is not None for ref in made[:2]]
    tape.gradient(y, x)
    return all(found)


def differs(changed: bool) -> bool:
    """Whether both outputs live on after the forward; with the change, there is no custom gradient."""
    return kept(lambda f: f) if changed else kept(keras.remat) and kept(own_rule)
