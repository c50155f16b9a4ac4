"""A transformer of Keras layers; the body of each block is recomputed by `keras.remat`."""

import keras
import numpy as np
from keras import layers


class Block(layers.Layer):
    def __init__(self, width, recompute):
        super().__init__()
        self.attention = layers.MultiHeadAttention(4, width // 4)
        perceptron = [layers.Dense(4 * width, "gelu"), layers.Dense(width)]
        self.perceptron = keras.Sequential([layers.LayerNormalization(), *perceptron])
        self.run = keras.remat(self.body) if recompute else self.body

    def build(self, shape):
        self.attention.build(shape, shape)
        self.perceptron.build(shape)

    def body(self, x):
        x = x + self.attention(x, x)
        return x + self.perceptron(x)

    def call(self, x):
        return self.run(x)


def model(recompute):
    blocks = [layers.Embedding(1000, 64), *(Block(64, recompute) for _ in range(3))]
    return keras.Sequential([keras.Input((63,)), *blocks, layers.Dense(1000)])


def batch(step):
    return np.random.randint(0, 1000, (4, 64))


def loss(model, ids):
    of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return of(ids[:, 1:], model(ids[:, :-1], training=True))
