"""A long chain of small operations, compiled once for the one shape there is."""

import numpy as np
import tensorflow as tf

BATCH, POINTS = 32, 8192
scale = tf.Variable(np.linspace(0.5, 1.5, POINTS).astype(np.float32))


def make_dataset():
    waves = np.random.default_rng(6).normal(size=(1024, POINTS)).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices(waves).shuffle(1024).repeat()
    return dataset.batch(BATCH, drop_remainder=True).prefetch(2)


@tf.function(jit_compile=True)
def train_step(waves):
    with tf.GradientTape() as tape:
        y = waves * scale
        for order in range(1, 13):
            y = y + 0.1 * y * y / (1.0 + y * y) - order * 0.01 * y
        loss = tf.reduce_mean(y * y)
    scale.assign_sub(0.001 * tape.gradient(loss, scale))
    return loss
