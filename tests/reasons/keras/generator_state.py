"""The rerun of a region draws further numbers from a SeedGenerator than the forward did."""

import keras
import numpy as np
import tensorflow as tf

ENVIRONMENT = {"KERAS_BACKEND": "tensorflow"}
REASON = "A SeedGenerator, the global one too, is a variable that each draw moves on"


def differs(changed: bool) -> bool:
    """Whether the gradient has noise of its own; with the change, the region sets the state."""
    generator = keras.random.SeedGenerator(0)
    state = generator.state.numpy()

    @keras.remat
    def region(x):
        if changed:
            generator.state.assign(state)
        return x * keras.random.uniform((8,), seed=generator)

    x = tf.ones(8)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = region(x)
    return not np.array_equal(tape.gradient(y, x), y)
