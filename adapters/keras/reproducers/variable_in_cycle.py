"""Up to Keras 3.14, a variable lives until the garbage collector runs, on the PyTorch backend."""

import gc
import os
import weakref

os.environ["KERAS_BACKEND"] = "torch"

import keras


def step():
    w = keras.Variable(keras.ops.ones((2, 2)))
    y = keras.ops.sin(keras.ops.matmul(w, w))
    return weakref.ref(w), y


gc.disable()
variable, result = step()
del result
assert variable() is not None
