"""Dropout inside a region, its random state preserved.

Case randomness/dropout-preserved, variant tf/eager.
Source: torch.utils.checkpoint, preserve_rng_state; Paddle's recompute, preserve_rng_state
"""

import numpy as np
import tensorflow as tf


def inputs():
    rng = np.random.default_rng(0)
    x = tf.constant(rng.standard_normal((8, 16)), dtype=tf.float32)
    w1 = tf.Variable(0.3 * rng.standard_normal((16, 16)), dtype=tf.float32)
    w2 = tf.Variable(0.3 * rng.standard_normal((16, 4)), dtype=tf.float32)
    return {"x": x, "w1": w1, "w2": w2}


def plain(x, w1, w2):
    def block(x):
        h = x @ w1
        d = tf.nn.dropout(h, rate=0.5)
        y = d @ w2
        return y, d

    y, d = block(x)
    z = y * y
    return z, d


def recomputed(x, w1, w2):
    def block(x):
        h = x @ w1
        d = tf.nn.dropout(h, rate=0.5)
        y = d @ w2
        return y, d

    recomputed_block = tf.recompute_grad(block)
    y, d = recomputed_block(x)
    z = y * y
    return z, d


def run(forward):
    tf.random.set_seed(0)
    values = inputs()
    sources = {"x": values["x"], "w1": values["w1"], "w2": values["w2"]}
    with tf.GradientTape() as tape:
        tape.watch(values["x"])
        outputs = forward(**values)
        loss = tf.reduce_sum(outputs[0])
    gradients = tape.gradient(loss, sources)
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
