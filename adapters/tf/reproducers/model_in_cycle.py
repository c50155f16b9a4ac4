"""An object that keeps a recomputed method is freed by the garbage collector alone."""

import gc
import weakref

import tensorflow as tf


class Plain:
    def method(self, x):
        return tf.sin(x)


class Recomputed(Plain):
    def __init__(self):
        self.recomputed = tf.recompute_grad(self.method)


gc.disable()
freed = {}
for kind in (Plain, Recomputed):
    model = kind()
    told = weakref.ref(model)
    del model
    freed[kind] = told() is None
gc.collect()
assert freed == {Plain: True, Recomputed: False}
assert told() is None
