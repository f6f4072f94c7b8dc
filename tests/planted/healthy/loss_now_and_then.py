"""The loss comes to the host, but for one step in fifty only."""

import numpy as np
import tensorflow as tf

UNITS = 48
rng = np.random.default_rng(1)
kernels = [tf.Variable(rng.normal(0, 0.1, (UNITS, UNITS)).astype("float32")) for _ in range(12)]
history = []
steps = 0


def make_dataset():
    x = rng.normal(size=(4096, UNITS)).astype("float32")
    y = np.sin(x.sum(axis=1)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(4096).repeat().batch(16, True).prefetch(2)


@tf.function
def descend(x, y):
    with tf.GradientTape() as tape:
        hidden = x
        for kernel in kernels:
            hidden = hidden + tf.tanh(hidden @ kernel)
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(hidden, axis=-1) - y))
    gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, kernels), 1.0)
    for kernel, gradient in zip(kernels, gradients, strict=True):
        kernel.assign_sub(0.01 * gradient)
    return loss


def train_step(x, y):
    global steps  # noqa: PLW0603
    loss = descend(x, y)
    steps += 1
    if steps % 50 == 0:
        history.append(float(loss.numpy()))
    return loss
