"""Bird calls: a small dense net, compiled; catalogue numbers are hashed to classes."""

import numpy as np
import tensorflow as tf

PROOF = "compiles"
KIND = "not-compilable"

SPECIES = 24
BANDS = 128

hidden = tf.Variable(tf.random.stateless_normal([BANDS, 64], [1, 2]) * 0.1)
top = tf.Variable(tf.random.stateless_normal([64, SPECIES], [3, 4]) * 0.1)


def make_dataset():
    rng = np.random.default_rng(5)
    bands = rng.normal(size=(2048, BANDS)).astype(np.float32)
    catalogue = rng.integers(0, 10**9, SPECIES)
    calls = tf.data.Dataset.from_tensor_slices((bands, rng.choice(catalogue, 2048)))
    return calls.shuffle(2048).repeat().batch(32, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def descend(bands, classes):
    with tf.GradientTape() as tape:
        logits = tf.nn.relu(bands @ hidden) @ top
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=logits))
    for variable, gradient in zip((hidden, top), tape.gradient(loss, (hidden, top)), strict=True):
        variable.assign_sub(0.05 * gradient)
    return loss


@tf.function(jit_compile=True)
def train_step(bands, numbers):
    classes = tf.strings.to_hash_bucket_fast(tf.strings.as_string(numbers), SPECIES)  # FAULT
    return descend(bands, classes)


compiled_descend = tf.function(descend, jit_compile=True)


def train_step_fixed(bands, numbers):
    return compiled_descend(bands, tf.strings.to_hash_bucket_fast(tf.strings.as_string(numbers), SPECIES))
