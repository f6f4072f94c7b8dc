"""Regression on tables; a few of the first steps are profiled, then the profiler stops."""

import tempfile

import numpy as np
import tensorflow as tf

COLUMNS = 32


class Trainer:
    def __init__(self, profile_from, profile_to):
        self.profile_from, self.profile_to = profile_from, profile_to
        self.step = 0
        self.weights = [tf.Variable(tf.zeros([COLUMNS, COLUMNS])) for _ in range(6)]

    def __call__(self, rows, targets):
        if self.step == self.profile_from:
            tf.profiler.experimental.start(tempfile.mkdtemp(prefix="profile-"))
        if self.step == self.profile_to:
            tf.profiler.experimental.stop()
        self.step += 1
        return self.descend(rows, targets)

    @tf.function
    def descend(self, rows, targets):
        with tf.GradientTape() as tape:
            out = rows
            for weight in self.weights:
                out = tf.nn.softplus(tf.matmul(out, weight) + out)
            loss = tf.reduce_mean(tf.abs(tf.reduce_mean(out, axis=1) - targets))
        for weight, gradient in zip(self.weights, tape.gradient(loss, self.weights), strict=True):
            weight.assign_sub(0.001 * gradient)
        return loss


def make_dataset():
    rows = np.random.default_rng(2).random((6400, COLUMNS), dtype=np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((rows, rows.mean(axis=1)))
    return dataset.shuffle(1000).repeat().batch(16, drop_remainder=True).prefetch(1)


train_step = Trainer(profile_from=2, profile_to=5)
