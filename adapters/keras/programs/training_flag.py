"""A recomputed layer inside a layer that is called with `training=True`."""

import keras
import numpy as np
import tensorflow as tf


class Block(keras.layers.Layer):
    def __init__(self, wrap):
        super().__init__()
        self.norm = keras.layers.BatchNormalization()
        self.run = wrap(self.norm)

    def build(self, shape):
        self.norm.build(shape)

    def call(self, x):
        return self.run(x)


def plain(layer):
    return layer


recomputed = keras.remat


def run(wrap):
    x = tf.constant(np.random.RandomState(0).randn(8, 3).astype("float32") * 3 + 5)
    block = Block(wrap)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(block(x, training=True) ** 3)
    return {"loss": loss, "gradient": tape.gradient(loss, x)}
