"""Scans into a small convolutional net: all that can run in parallel does, ahead of the step."""

import os
from glob import glob

import tensorflow as tf

DATA = os.environ["PLANTED_DATA"]
AUTOTUNE = tf.data.AUTOTUNE

kernel = tf.Variable(tf.random.stateless_normal([5, 5, 3, 24], [0, 1]) * 0.1)
dense = tf.Variable(tf.random.stateless_normal([24, 10], [0, 2]) * 0.1)


def parse(record):
    features = tf.io.parse_single_example(
        record,
        {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)},
    )
    image = tf.io.decode_png(features["image"], channels=3)
    return tf.cast(tf.ensure_shape(image, [96, 96, 3]), tf.float32) / 255.0, features["label"]


def make_dataset():
    files = tf.data.Dataset.from_tensor_slices(sorted(glob(f"{DATA}/scans/*.tfrecord")))
    return (
        files.interleave(tf.data.TFRecordDataset, num_parallel_calls=AUTOTUNE, deterministic=False)
        .shuffle(600)
        .repeat()
        .map(parse, num_parallel_calls=AUTOTUNE)
        .batch(32, drop_remainder=True)
        .prefetch(AUTOTUNE)
    )


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        features = tf.reduce_mean(tf.nn.relu(tf.nn.conv2d(images, kernel, 2, "SAME")), axis=[1, 2])
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=features @ dense)
        )
    for variable, gradient in zip((kernel, dense), tape.gradient(loss, (kernel, dense)), strict=True):
        variable.assign_sub(0.1 * gradient)
    return loss
