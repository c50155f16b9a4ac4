"""A perceptron in TensorFlow; `tf.recompute_grad` recomputes each layer, dropout is stateless."""

import tensorflow as tf


class Layer(tf.Module):
    def __init__(self, width, recompute):
        super().__init__()
        self.up = tf.Variable(tf.random.normal((width, 4 * width)) / width**0.5)
        self.down = tf.Variable(tf.random.normal((4 * width, width)) / (4 * width) ** 0.5)
        self.run = tf.recompute_grad(self.body) if recompute else self.body

    def body(self, x, seed):
        h = tf.nn.experimental.stateless_dropout(tf.nn.gelu(x @ self.up), 0.1, seed)
        return x + h @ self.down


class Perceptron(tf.Module):
    def __init__(self, recompute):
        super().__init__()
        self.layers = [Layer(64, recompute) for _ in range(4)]

    def __call__(self, x, step):
        for number, layer in enumerate(self.layers):
            x = layer.run(x, tf.constant([step, number]))
        return x


def model(recompute):
    return Perceptron(recompute)


def batch(step):
    return step, tf.random.normal((32, 64)), tf.random.normal((32, 64))


def loss(model, batch):
    step, x, y = batch
    return tf.reduce_mean((model(x, step) - y) ** 2)
