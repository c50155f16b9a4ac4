"""Eight layers of three sines in four segments of two.

Case memory/chain-segments, variant keras/scope-larger-torch.
Source: Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost
"""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
from keras import ops


def inputs():
    rng = np.random.default_rng(0)
    x = ops.convert_to_tensor(0.5 * rng.standard_normal((2048, 64)), "float32")
    w1 = keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    w2 = keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    w3 = keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    w4 = keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    w5 = keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    w6 = keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    w7 = keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    w8 = keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    v1 = keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    v2 = keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    v3 = keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    v4 = keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    v5 = keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    v6 = keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    v7 = keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
    v8 = keras.Variable(0.12 * rng.standard_normal((64, 64)), dtype="float32")
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
    h = ops.matmul(x, v1)

    class Segment1(keras.layers.Layer):
        def __init__(self, w1, v1):
            super().__init__()
            self.w1 = w1
            self.v1 = v1

        def call(self, h):
            p1 = ops.matmul(h, self.w1)
            s1 = ops.sin(p1)
            t1 = ops.sin(s1)
            u1 = ops.sin(t1)
            q1 = ops.matmul(u1, self.v1)
            r1 = ops.sin(q1)
            m1 = ops.sin(r1)
            h = ops.sin(m1)
            return h

    segment1 = Segment1(w1, v1)
    h = segment1(h)

    class Segment2(keras.layers.Layer):
        def __init__(self, w2, v2):
            super().__init__()
            self.w2 = w2
            self.v2 = v2

        def call(self, h):
            p2 = ops.matmul(h, self.w2)
            s2 = ops.sin(p2)
            t2 = ops.sin(s2)
            u2 = ops.sin(t2)
            q2 = ops.matmul(u2, self.v2)
            r2 = ops.sin(q2)
            m2 = ops.sin(r2)
            h = ops.sin(m2)
            return h

    segment2 = Segment2(w2, v2)
    h = segment2(h)

    class Segment3(keras.layers.Layer):
        def __init__(self, w3, v3):
            super().__init__()
            self.w3 = w3
            self.v3 = v3

        def call(self, h):
            p3 = ops.matmul(h, self.w3)
            s3 = ops.sin(p3)
            t3 = ops.sin(s3)
            u3 = ops.sin(t3)
            q3 = ops.matmul(u3, self.v3)
            r3 = ops.sin(q3)
            m3 = ops.sin(r3)
            h = ops.sin(m3)
            return h

    segment3 = Segment3(w3, v3)
    h = segment3(h)

    class Segment4(keras.layers.Layer):
        def __init__(self, w4, v4):
            super().__init__()
            self.w4 = w4
            self.v4 = v4

        def call(self, h):
            p4 = ops.matmul(h, self.w4)
            s4 = ops.sin(p4)
            t4 = ops.sin(s4)
            u4 = ops.sin(t4)
            q4 = ops.matmul(u4, self.v4)
            r4 = ops.sin(q4)
            m4 = ops.sin(r4)
            h = ops.sin(m4)
            return h

    segment4 = Segment4(w4, v4)
    h = segment4(h)
    z = ops.sum(h)
    return z


def recomputed(x, w1, w2, w3, w4, w5, w6, w7, w8, v1, v2, v3, v4, v5, v6, v7, v8):
    h = ops.matmul(x, v1)

    class Segment1(keras.layers.Layer):
        def __init__(self, w1, v1):
            super().__init__()
            self.w1 = w1
            self.v1 = v1

        def call(self, h):
            p1 = ops.matmul(h, self.w1)
            s1 = ops.sin(p1)
            t1 = ops.sin(s1)
            u1 = ops.sin(t1)
            q1 = ops.matmul(u1, self.v1)
            r1 = ops.sin(q1)
            m1 = ops.sin(r1)
            h = ops.sin(m1)
            return h

    with keras.RematScope(mode="larger_than", output_size_threshold=0):
        segment1 = Segment1(w1, v1)
    h = segment1(h)

    class Segment2(keras.layers.Layer):
        def __init__(self, w2, v2):
            super().__init__()
            self.w2 = w2
            self.v2 = v2

        def call(self, h):
            p2 = ops.matmul(h, self.w2)
            s2 = ops.sin(p2)
            t2 = ops.sin(s2)
            u2 = ops.sin(t2)
            q2 = ops.matmul(u2, self.v2)
            r2 = ops.sin(q2)
            m2 = ops.sin(r2)
            h = ops.sin(m2)
            return h

    with keras.RematScope(mode="larger_than", output_size_threshold=0):
        segment2 = Segment2(w2, v2)
    h = segment2(h)

    class Segment3(keras.layers.Layer):
        def __init__(self, w3, v3):
            super().__init__()
            self.w3 = w3
            self.v3 = v3

        def call(self, h):
            p3 = ops.matmul(h, self.w3)
            s3 = ops.sin(p3)
            t3 = ops.sin(s3)
            u3 = ops.sin(t3)
            q3 = ops.matmul(u3, self.v3)
            r3 = ops.sin(q3)
            m3 = ops.sin(r3)
            h = ops.sin(m3)
            return h

    with keras.RematScope(mode="larger_than", output_size_threshold=0):
        segment3 = Segment3(w3, v3)
    h = segment3(h)

    class Segment4(keras.layers.Layer):
        def __init__(self, w4, v4):
            super().__init__()
            self.w4 = w4
            self.v4 = v4

        def call(self, h):
            p4 = ops.matmul(h, self.w4)
            s4 = ops.sin(p4)
            t4 = ops.sin(s4)
            u4 = ops.sin(t4)
            q4 = ops.matmul(u4, self.v4)
            r4 = ops.sin(q4)
            m4 = ops.sin(r4)
            h = ops.sin(m4)
            return h

    with keras.RematScope(mode="larger_than", output_size_threshold=0):
        segment4 = Segment4(w4, v4)
    h = segment4(h)
    z = ops.sum(h)
    return z


def run(forward):
    values = inputs()
    wanted = {
        "w1": values["w1"].value,
        "w2": values["w2"].value,
        "w3": values["w3"].value,
        "w4": values["w4"].value,
        "w5": values["w5"].value,
        "w6": values["w6"].value,
        "w7": values["w7"].value,
        "w8": values["w8"].value,
        "v1": values["v1"].value,
        "v2": values["v2"].value,
        "v3": values["v3"].value,
        "v4": values["v4"].value,
        "v5": values["v5"].value,
        "v6": values["v6"].value,
        "v7": values["v7"].value,
        "v8": values["v8"].value,
    }
    outputs = forward(**values)
    loss = outputs
    loss.backward()
    gradients = {name: value.grad for name, value in wanted.items()}
    return {
        "outputs": outputs,
        "losses": [loss],
        "gradients": {
            name: gradients[name]
            for name in (
                "w1",
                "w4",
                "v4",
            )
        },
    }


def main():
    for name, forward in (("plain", plain), ("recomputed", recomputed)):
        print(name)
        for key, value in run(forward).items():
            print(f"  {key}: {value}")


if __name__ == "__main__":
    main()
