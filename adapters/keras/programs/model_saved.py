"""A model of recomputed layers that is saved, and loaded as a whole."""

import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf


def plain(make):
    return make()


def recomputed(make):
    with keras.RematScope(mode="full"):
        return make()


def model():
    layers = [keras.layers.Dense(4, activation="tanh", name=f"layer{n}") for n in range(2)]
    return keras.Sequential([keras.Input((4,)), *layers])


def run(forward):
    first = forward(model)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.keras")
        first.save(file)
        second = forward(lambda: keras.models.load_model(file))
    x = tf.constant(np.random.randn(2, 4), tf.float32)
    with tf.GradientTape() as tape:
        y = second(x)
        loss = tf.reduce_sum(y**2)
    gradients = tape.gradient(loss, second.trainable_variables)
    return {"result": y, "gradients": gradients}
