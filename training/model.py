"""A small convolutional text recogniser: one class for each position of the text.

Shapes: B batch, H height, W width, C channels, T codes a record, K classes.
"""

from __future__ import annotations

from typing import Any

import keras

from loaders.spec import Schema

_STEM_ROWS = 32
"""The stem shrinks the shorter side to about this many rows, so that large images stay cheap."""
_FILTERS = (32, 48, 64)


def make_model(schema: Schema) -> Any:
    """A Keras model from image_BHWC (any float, 0 to 1) to float32 logits_BTK."""
    image = keras.Input((schema.height, schema.width, schema.channels), name="image")
    stride = max(1, min(schema.height, schema.width) // _STEM_ROWS)
    x = _halve(_block(image, 16, kernel=max(3, stride + 1), stride=stride))
    for filters in _FILTERS:
        x = _halve(_block(x, filters, kernel=3, stride=1))
    while x.shape[1] * x.shape[2] > 256:
        x = keras.layers.MaxPooling2D(2, padding="same")(x)
    x = keras.layers.Flatten()(x)
    x = keras.layers.Dense(256, activation="relu")(x)
    x = keras.layers.Dense(schema.max_len * schema.num_classes)(x)
    x = keras.layers.Reshape((schema.max_len, schema.num_classes))(x)
    # Softmax and its logarithm want float32, whatever the policy computes in.
    logits = keras.layers.Activation("linear", dtype="float32", name="logits")(x)
    return keras.Model(image, logits)


def _halve(x: Any) -> Any:
    return keras.layers.MaxPooling2D(2)(x) if min(x.shape[1], x.shape[2]) >= 4 else x


def _block(x: Any, filters: int, *, kernel: int, stride: int) -> Any:
    x = keras.layers.Conv2D(filters, kernel, strides=stride, padding="same", use_bias=False)(x)
    x = keras.layers.BatchNormalization(momentum=0.9)(x)
    return keras.layers.Activation("relu")(x)
