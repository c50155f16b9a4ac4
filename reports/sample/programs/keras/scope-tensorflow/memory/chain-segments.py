"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant keras/scope-tensorflow.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import numpy as np
import tensorflow as tf
from keras import ops


def inputs():
    rng = np.random.default_rng(0)
    x = ops.convert_to_tensor(0.5 * rng.standard_normal((2048, 64)), "float32")
    ws = [
        keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
        for _ in range(8)
    ]
    vs = [
        keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
        for _ in range(8)
    ]
    return {"x": x, "ws": ws, "vs": vs}


class Segment(keras.layers.Layer):
    def call(self, h, w, v):
        p = ops.matmul(h, w)
        s = ops.sin(p)
        t = ops.sin(s)
        u = ops.sin(t)
        q = ops.matmul(u, v)
        r = ops.sin(q)
        m = ops.sin(r)
        return ops.sin(m)


def plain(x, ws, vs):
    h = ops.matmul(x, vs[0])
    segment = Segment()
    for w, v in zip(ws[:4], vs[:4]):
        h = segment(h, w.value, v.value)
    return ops.sum(h)


def recomputed(x, ws, vs):
    h = ops.matmul(x, vs[0])
    with keras.RematScope(mode="full"):
        segment = Segment()
    for w, v in zip(ws[:4], vs[:4]):
        h = segment(h, w.value, v.value)
    return ops.sum(h)


def run(forward):
    values = inputs()
    wanted = {
        "ws": [w.value for w in values["ws"]],
        "vs": [w.value for w in values["vs"]],
    }
    with tf.GradientTape() as tape:
        tape.watch(wanted)
        loss = forward(**values)
    gradients = tape.gradient(loss, wanted)
    gradients = {
        "w1": gradients["ws"][0],
        "w4": gradients["ws"][3],
        "v4": gradients["vs"][3],
    }
    return {"outputs": loss, "losses": [loss], "gradients": gradients}


if __name__ == "__main__":
    for forward in (plain, recomputed):
        print(forward.__name__, run(forward))
