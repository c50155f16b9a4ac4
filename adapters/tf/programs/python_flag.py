"""A Python flag is a tensor in the recomputation, where `flag is True` is false: a wrong gradient."""

import tensorflow as tf


class Layer(tf.Module):
    def __init__(self, recompute):
        super().__init__()
        self.weight = tf.Variable(tf.random.normal((4, 4)))
        self.run = tf.recompute_grad(self.body) if recompute else self.body

    def body(self, x, gated):
        h = tf.sin(x @ self.weight)
        return h * h if gated is True else h


def model(recompute):
    return Layer(recompute)


def batch(step):
    return tf.random.normal((8, 4))


def loss(model, x):
    return tf.reduce_mean(model.run(x, True) ** 2)
