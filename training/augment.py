"""Augmentation in the training step: stateless ops that XLA compiles, the same for every loader.

Shapes: B batch, H height, W width, C channels.
"""

from __future__ import annotations

import tensorflow as tf

_SHIFT = 0.06
"""Largest shift, as a share of each side."""
_BRIGHTNESS = 0.15
_CONTRAST = 0.25
_NOISE = 0.03


def augment_light(image_BHWC: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """``image_BHWC`` (float, 0 to 1) shifted, brighter or darker, with other contrast and noise.

    seed: int32 [2]; the same seed gives the same batch.
    """
    seeds = tf.unstack(tf.random.split(seed, 4))
    image_BHWC = _shift(image_BHWC, seeds[0])
    batch, dtype = image_BHWC.shape[0], image_BHWC.dtype
    each = [batch, 1, 1, 1]
    contrast = tf.random.stateless_uniform(each, seeds[1], 1 - _CONTRAST, 1 + _CONTRAST, dtype)
    brightness = tf.random.stateless_uniform(each, seeds[2], -_BRIGHTNESS, _BRIGHTNESS, dtype)
    noise = tf.random.stateless_normal(image_BHWC.shape, seeds[3], stddev=_NOISE, dtype=dtype)
    mean = tf.reduce_mean(image_BHWC, axis=[1, 2, 3], keepdims=True)
    return tf.clip_by_value((image_BHWC - mean) * contrast + mean + brightness + noise, 0, 1)


def _shift(image_BHWC: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Each image moved by its own whole number of pixels; what comes in repeats the edge."""
    batch, height, width, _ = image_BHWC.shape
    limit = tf.constant([max(1, round(_SHIFT * height)), max(1, round(_SHIFT * width))])
    moves_B2 = tf.cast(
        tf.floor(tf.random.stateless_uniform([batch, 2], seed) * tf.cast(2 * limit + 1, tf.float32)), tf.int32
    )
    moves_B2 = moves_B2 - limit
    rows_BH = tf.clip_by_value(tf.range(height)[None] + moves_B2[:, :1], 0, height - 1)
    columns_BW = tf.clip_by_value(tf.range(width)[None] + moves_B2[:, 1:], 0, width - 1)
    image_BHWC = tf.gather(image_BHWC, rows_BH, axis=1, batch_dims=1)
    return tf.gather(image_BHWC, columns_BW, axis=2, batch_dims=1)
