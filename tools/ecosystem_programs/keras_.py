"""Keras 3 with its JAX backend."""

import os

os.environ["KERAS_BACKEND"] = "jax"

import keras
import numpy as np


def _data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 8)).astype("float32")
    return x, (x[:, :1] > 0).astype("float32")


def dense_training():
    x, y = _data()

    def run():
        keras.utils.set_random_seed(0)
        layers = [keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((8,)), *layers])
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
        model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=loss)
        history = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
        return history.history["loss"], model.predict(x, verbose=0)

    return run


def convolution_forward():
    keras.utils.set_random_seed(1)
    inputs = keras.Input((12, 12, 2))
    x = keras.layers.Conv2D(4, 3, padding="same", activation="gelu")(inputs)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.MaxPooling2D()(x)
    outputs = keras.layers.Dense(3)(keras.layers.Flatten()(x))
    model = keras.Model(inputs, outputs)
    x = np.random.default_rng(1).normal(size=(4, 12, 12, 2)).astype("float32")
    return lambda: (model(x), model(x, training=True))


def recurrent_and_attention():
    keras.utils.set_random_seed(2)
    inputs = keras.Input((6, 5))
    x = keras.layers.LSTM(8, return_sequences=True)(inputs)
    x = keras.layers.MultiHeadAttention(2, 4)(x, x)
    outputs = keras.layers.LayerNormalization()(x)
    model = keras.Model(inputs, outputs)
    x = np.random.default_rng(2).normal(size=(3, 6, 5)).astype("float32")
    return lambda: model(x)
