"""A rerun moves the generator on, and the next step has another mask than without recompute."""

import keras
import numpy as np
import tensorflow as tf

ENVIRONMENT = {"KERAS_BACKEND": "tensorflow"}
REASON = "The rerun moves the generator on"


def second(how, *, seeded: bool) -> np.ndarray:
    """What the second of two steps computes, which change no parameter."""
    keras.utils.set_random_seed(0)
    x = tf.ones(64)
    for _ in range(2):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = how(lambda x: keras.random.dropout(x, 0.5))(x)
        tape.gradient(y, x)
        if seeded:
            keras.utils.set_random_seed(0)
    return y.numpy()


def differs(changed: bool) -> bool:
    """Whether the second value is not the plain one; with the change, each step is seeded."""
    plain = second(lambda f: f, seeded=changed)
    return not np.array_equal(second(keras.remat, seeded=changed), plain)
