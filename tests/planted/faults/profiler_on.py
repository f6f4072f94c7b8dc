"""Regression on tables; the first steps are profiled."""

import os
import tempfile

import numpy as np
import tensorflow as tf

PROOF = "throughput"
KIND = "profiler-on"

COLUMNS = 32


class Trainer:
    def __init__(self, profile_from=None):
        self.profile_from = profile_from
        self.step = 0
        self.weights = [tf.Variable(tf.zeros([COLUMNS, COLUMNS])) for _ in range(6)]
        self.optimizer = tf.keras.optimizers.SGD(0.001)

    def __call__(self, rows, targets):
        if self.step == self.profile_from:
            self.start_profile()
        self.step += 1
        with tf.GradientTape() as tape:
            out = rows
            for weight in self.weights:
                out = tf.nn.softplus(tf.matmul(out, weight) + out)
            loss = tf.reduce_mean(tf.abs(tf.reduce_mean(out, axis=1) - targets))
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.weights), self.weights, strict=True))
        return loss

    def start_profile(self):
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=3, python_tracer_level=1)
        logdir = os.path.join(tempfile.mkdtemp(prefix="profile-"), "first-steps")
        tf.profiler.experimental.start(logdir, options=options)  # FAULT


def make_dataset():
    rng = np.random.default_rng(2)
    rows = rng.random((6400, COLUMNS), dtype=np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((rows, rows.mean(axis=1)))
    return dataset.shuffle(1000).batch(16).prefetch(1)


train_step = Trainer(profile_from=2)
train_step_fixed = Trainer()
