"""A filter that runs along series, point by point; the first steps are profiled."""

import os
import tempfile

import numpy as np
import tensorflow as tf

PROOF = "throughput"
KIND = "profiler-on"

POINTS, CHANNELS = 150, 8


class Trainer:
    def __init__(self, profile_from=None):
        self.profile_from = profile_from
        self.step = 0
        self.decay = tf.Variable(tf.fill([CHANNELS], 0.5))

    def __call__(self, series, targets):
        if self.step == self.profile_from:
            self.start_profile()
        self.step += 1
        return self.descend(series, targets)

    @tf.function
    def descend(self, series, targets):
        with tf.GradientTape() as tape:
            state = tf.zeros_like(series[:, 0])
            for point in tf.range(POINTS):
                state = tf.tanh(state * self.decay + series[:, point])
            loss = tf.reduce_mean(tf.square(tf.reduce_sum(state, axis=1) - targets))
        self.decay.assign_sub(0.01 * tape.gradient(loss, self.decay))
        return loss

    def start_profile(self):
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=3)
        logdir = os.path.join(tempfile.mkdtemp(prefix="profile-"), "first-steps")
        tf.profiler.experimental.start(logdir, options=options)  # FAULT


def make_dataset():
    rng = np.random.default_rng(2)
    series = rng.random((3200, POINTS, CHANNELS), dtype=np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((series, series[:, -1].sum(axis=1)))
    return dataset.shuffle(1000).batch(16).prefetch(1)


train_step = Trainer(profile_from=2)
train_step_fixed = Trainer()
