"""Gradients of zeros that another thread makes for an unused result outlive the thread."""

import os

os.environ["KERAS_BACKEND"] = "tensorflow"

import gc
from concurrent.futures import ThreadPoolExecutor

import keras
import tensorflow as tf


def block(x):
    return tf.cos(x), tf.sin(x)


def left(function):
    """How many tensors of four elements are alive after a step."""
    x = tf.constant([3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        _, used = function(x * tf.ones(4))
        loss = tf.reduce_sum(used)
    with ThreadPoolExecutor(max_workers=1) as executor:
        executor.submit(tape.gradient, loss, x).result()
    del tape, used, loss, _
    gc.collect()
    return sum(isinstance(o, tf.Tensor) and o.shape == (4,) for o in gc.get_objects())


plain = min(left(block) for _ in range(3))
recomputed = min(left(keras.remat(block)) for _ in range(3))
print(plain, recomputed)
assert recomputed > plain
