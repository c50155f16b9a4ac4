"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant tf/function.
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
    return {
        "x": x,
        **{f"w{i}": w for i, w in enumerate(ws, 1)},
        **{f"v{i}": v for i, v in enumerate(vs, 1)},
    }


def plain(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment(h, w, v):
        p = h @ w
        s = tf.sin(p)
        t = tf.sin(s)
        u = tf.sin(t)
        q = u @ v
        r = tf.sin(q)
        m = tf.sin(r)
        return tf.sin(m)

    for w, v in zip((w1, w2, w3, w4), (v1, v2, v3, v4)):
        h = segment(h, w, v)
    return tf.reduce_sum(h)


def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment(h, w, v):
        p = h @ w
        s = tf.sin(p)
        t = tf.sin(s)
        u = tf.sin(t)
        q = u @ v
        r = tf.sin(q)
        m = tf.sin(r)
        return tf.sin(m)

    recomputed_segment = tf.recompute_grad(segment)
    for w, v in zip((w1, w2, w3, w4), (v1, v2, v3, v4)):
        h = recomputed_segment(h, w, v)
    return tf.reduce_sum(h)


def run(forward):
    values = inputs()

    # A constant cotangent would let the optimizer make one of forward and rerun.
    @tf.function(autograph=False)
    def step(values, cotangent):
        sources = {"w1": values["w1"], "w4": values["w4"], "v4": values["v4"]}
        with tf.GradientTape() as tape:
            outputs = forward(**values)
            loss = outputs
        gradients = tape.gradient(loss, sources, output_gradients=cotangent)
        return outputs, loss, gradients

    outputs, loss, gradients = step(values, tf.constant(1.0))
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
