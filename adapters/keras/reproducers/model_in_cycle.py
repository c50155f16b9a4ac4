"""An object that keeps a recomputed method is freed by the garbage collector alone."""

import gc
import os
import weakref

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras


class Plain:
    def method(self, x):
        return keras.ops.sin(x)


class Recomputed(Plain):
    def __init__(self):
        self.recomputed = keras.remat(self.method)


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
