"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant tf/forward-function.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import numpy as np
import tensorflow as tf


def inputs():
    rng = np.random.default_rng(0)
    x = tf.constant(0.5 * rng.standard_normal((2048, 64)), dtype=tf.float32)
    w1 = tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
    w2 = tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
    w3 = tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
    w4 = tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
    w5 = tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
    w6 = tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
    w7 = tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
    w8 = tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
    v1 = tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
    v2 = tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
    v3 = tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
    v4 = tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
    v5 = tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
    v6 = tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
    v7 = tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
    v8 = tf.Variable(0.12 * rng.standard_normal((64, 64)), dtype=tf.float32)
    return {
        "x": x,
        "w1": w1,
        "w2": w2,
        "w3": w3,
        "w4": w4,
        "w5": w5,
        "w6": w6,
        "w7": w7,
        "w8": w8,
        "v1": v1,
        "v2": v2,
        "v3": v3,
        "v4": v4,
        "v5": v5,
        "v6": v6,
        "v7": v7,
        "v8": v8,
    }


def plain(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment1(h):
        p1 = h @ w1
        s1 = tf.sin(p1)
        t1 = tf.sin(s1)
        u1 = tf.sin(t1)
        q1 = u1 @ v1
        r1 = tf.sin(q1)
        m1 = tf.sin(r1)
        h = tf.sin(m1)
        return h

    h = segment1(h)

    def segment2(h):
        p2 = h @ w2
        s2 = tf.sin(p2)
        t2 = tf.sin(s2)
        u2 = tf.sin(t2)
        q2 = u2 @ v2
        r2 = tf.sin(q2)
        m2 = tf.sin(r2)
        h = tf.sin(m2)
        return h

    h = segment2(h)

    def segment3(h):
        p3 = h @ w3
        s3 = tf.sin(p3)
        t3 = tf.sin(s3)
        u3 = tf.sin(t3)
        q3 = u3 @ v3
        r3 = tf.sin(q3)
        m3 = tf.sin(r3)
        h = tf.sin(m3)
        return h

    h = segment3(h)

    def segment4(h):
        p4 = h @ w4
        s4 = tf.sin(p4)
        t4 = tf.sin(s4)
        u4 = tf.sin(t4)
        q4 = u4 @ v4
        r4 = tf.sin(q4)
        m4 = tf.sin(r4)
        h = tf.sin(m4)
        return h

    h = segment4(h)
    z = tf.reduce_sum(h)
    return z


def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = x @ v1

    def segment1(h):
        p1 = h @ w1
        s1 = tf.sin(p1)
        t1 = tf.sin(s1)
        u1 = tf.sin(t1)
        q1 = u1 @ v1
        r1 = tf.sin(q1)
        m1 = tf.sin(r1)
        h = tf.sin(m1)
        return h

    recomputed_segment1 = tf.recompute_grad(segment1)
    h = recomputed_segment1(h)

    def segment2(h):
        p2 = h @ w2
        s2 = tf.sin(p2)
        t2 = tf.sin(s2)
        u2 = tf.sin(t2)
        q2 = u2 @ v2
        r2 = tf.sin(q2)
        m2 = tf.sin(r2)
        h = tf.sin(m2)
        return h

    recomputed_segment2 = tf.recompute_grad(segment2)
    h = recomputed_segment2(h)

    def segment3(h):
        p3 = h @ w3
        s3 = tf.sin(p3)
        t3 = tf.sin(s3)
        u3 = tf.sin(t3)
        q3 = u3 @ v3
        r3 = tf.sin(q3)
        m3 = tf.sin(r3)
        h = tf.sin(m3)
        return h

    recomputed_segment3 = tf.recompute_grad(segment3)
    h = recomputed_segment3(h)

    def segment4(h):
        p4 = h @ w4
        s4 = tf.sin(p4)
        t4 = tf.sin(s4)
        u4 = tf.sin(t4)
        q4 = u4 @ v4
        r4 = tf.sin(q4)
        m4 = tf.sin(r4)
        h = tf.sin(m4)
        return h

    recomputed_segment4 = tf.recompute_grad(segment4)
    h = recomputed_segment4(h)
    z = tf.reduce_sum(h)
    return z


def run(forward):
    values = inputs()

    @tf.function(autograph=False)
    def step(values):
        return forward(**values)

    sources = {"w1": values["w1"], "w4": values["w4"], "v4": values["v4"]}
    with tf.GradientTape() as tape:
        outputs = step(values)
        loss = outputs
    gradients = tape.gradient(loss, sources)
    return {"outputs": outputs, "losses": [loss], "gradients": gradients}


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
