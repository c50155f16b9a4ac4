"""A recomputed embedding that masks zeros, before a layer that reads the mask."""

import keras
import numpy as np
import tensorflow as tf


def plain(layer):
    return layer


recomputed = keras.remat


def run(wrap):
    keras.utils.set_random_seed(0)
    embedding = keras.layers.Embedding(5, 3, mask_zero=True)
    pooled = keras.layers.GlobalAveragePooling1D()
    ids = np.array([[1, 2, 0, 0], [3, 0, 0, 0]])
    embedding.build(ids.shape)
    with tf.GradientTape() as tape:
        result = pooled(wrap(embedding)(ids))
        loss = tf.reduce_sum(result**2)
    gradient = tape.gradient(loss, embedding.embeddings.value)
    return {"result": result, "gradient": tf.convert_to_tensor(gradient)}
