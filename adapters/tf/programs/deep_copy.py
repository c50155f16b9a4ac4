"""A deep copy of a module that keeps `recompute_grad(self.method)` runs the original's method."""

import copy

import tensorflow as tf


class Block(tf.Module):
    def __init__(self, recompute):
        super().__init__()
        self.weight = tf.Variable(tf.random.normal((4, 4)))
        self.run = tf.recompute_grad(self.body) if recompute else self.body

    def body(self, x):
        return tf.sin(x @ self.weight)


class Model(tf.Module):
    def __init__(self, recompute, layers=2):
        super().__init__()
        block = Block(recompute)
        self.blocks = [copy.deepcopy(block) for _ in range(layers)]


def model(recompute):
    return Model(recompute)


def batch(step):
    return tf.random.normal((8, 4))


def loss(model, x):
    for block in model.blocks:
        x = block.run(x)
    return tf.reduce_mean(x**2)
