"""A Python generator that hands over whole blocks of rows: a few calls, and the step takes longer by far."""

import numpy as np
import tensorflow as tf

ROWS, COLUMNS = 64, 256


def blocks():
    rng = np.random.default_rng(12)
    while True:
        rows = rng.random((ROWS, COLUMNS), dtype=np.float32)
        yield rows, rows.sum(axis=1)


def make_dataset():
    signature = (tf.TensorSpec([ROWS, COLUMNS], tf.float32), tf.TensorSpec([ROWS], tf.float32))
    return tf.data.Dataset.from_generator(blocks, output_signature=signature).prefetch(8)


weights = [tf.Variable(tf.random.stateless_normal([1024, 1024], [n, n]) * 0.01) for n in range(3)]
entry = tf.Variable(tf.random.stateless_normal([COLUMNS, 1024], [8, 8]) * 0.05)


@tf.function
def train_step(rows, sums):
    variables = [entry, *weights]
    with tf.GradientTape() as tape:
        hidden = rows @ entry
        for weight in weights:
            hidden = tf.nn.relu(hidden @ weight) + hidden
        loss = tf.reduce_mean(tf.square(tf.reduce_mean(hidden, axis=1) - sums))
    for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
        variable.assign_sub(1e-4 * gradient)
    return loss
