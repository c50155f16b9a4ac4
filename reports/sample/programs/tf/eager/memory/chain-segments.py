"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant tf/eager.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import numpy as np
import tensorflow as tf


def inputs():
    rng = np.random.default_rng(0)
    x = tf.constant(0.5 * rng.standard_normal((2048, 64)), dtype=tf.float32)
    ws = [
        tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
        for _ in range(8)
    ]
    vs = [
        tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
        for _ in range(8)
    ]
    return {"x": x, "ws": ws, "vs": vs}


def segment(h, w, v):
    p = h @ w
    s = tf.sin(p)
    t = tf.sin(s)
    u = tf.sin(t)
    q = u @ v
    r = tf.sin(q)
    m = tf.sin(r)
    return tf.sin(m)


def plain(x, ws, vs):
    h = x @ vs[0]
    for w, v in zip(ws[:4], vs[:4]):
        h = segment(h, w, v)
    return tf.reduce_sum(h)


def recomputed(x, ws, vs):
    h = x @ vs[0]
    recomputed_segment = tf.recompute_grad(segment)
    for w, v in zip(ws[:4], vs[:4]):
        h = recomputed_segment(h, w, v)
    return tf.reduce_sum(h)


def run(forward):
    values = inputs()
    sources = {"w1": values["ws"][0], "w4": values["ws"][3], "v4": values["vs"][3]}
    with tf.GradientTape() as tape:
        loss = forward(**values)
    gradients = tape.gradient(loss, sources)
    return {"outputs": loss, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
