"""A transformer of Keras layers; the body of each block is recomputed by `keras.remat`."""

import keras
import numpy as np


class Block(keras.layers.Layer):
    def __init__(self, width, recompute):
        super().__init__()
        self.first, self.second = (keras.layers.LayerNormalization() for _ in range(2))
        self.attention = keras.layers.MultiHeadAttention(4, width // 4)
        self.up, self.down = keras.layers.Dense(4 * width, "gelu"), keras.layers.Dense(width)
        self.run = keras.remat(self.body) if recompute else self.body

    def build(self, shape):
        self.first.build(shape)
        self.second.build(shape)
        self.attention.build(shape, shape)
        self.up.build(shape)
        self.down.build((*shape[:-1], 4 * shape[-1]))

    def body(self, x):
        h = self.first(x)
        x = x + self.attention(h, h)
        return x + self.down(self.up(self.second(x)))

    def call(self, x):
        return self.run(x)


def model(recompute):
    layers = [keras.layers.Embedding(1000, 64), *(Block(64, recompute) for _ in range(3))]
    return keras.Sequential([keras.Input((63,)), *layers, keras.layers.Dense(1000)])


def batch(step):
    return np.random.randint(0, 1000, (4, 64))


def loss(model, ids):
    logits = model(ids[:, :-1], training=True)
    losses = keras.losses.sparse_categorical_crossentropy(ids[:, 1:], logits, from_logits=True)
    return keras.ops.mean(losses)
