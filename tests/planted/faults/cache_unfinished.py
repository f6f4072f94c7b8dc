"""Decoded photographs, kept on disk for the epochs to come."""

import os
import tempfile

import tensorflow as tf

PROOF = "throughput"
KIND = "cache-unfinished"
SAME_CALLS = True

DATA = os.environ["PLANTED_DATA"]
EXAMPLES = 384


def decode(record):
    features = tf.io.parse_single_example(record, {"image": tf.io.FixedLenFeature([], tf.string)})
    image = tf.io.decode_png(features["image"], channels=3)
    image = tf.reshape(image, [128, 128, 3])
    return tf.cast(tf.image.resize(image, [96, 96], antialias=True), tf.uint8)


def decoded():
    shards = tf.io.gfile.glob(os.path.join(DATA, "photos", "train-*"))
    records = tf.data.TFRecordDataset(sorted(shards))
    return records.map(decode, num_parallel_calls=tf.data.AUTOTUNE)


def cache_file():
    return os.path.join(tempfile.mkdtemp(prefix="photos-"), "decoded")


def make_dataset():
    images = decoded()
    images = images.cache(cache_file())  # FAULT
    images = images.take(EXAMPLES)
    images = images.batch(32)
    return images.prefetch(tf.data.AUTOTUNE)


def make_dataset_fixed():
    images = decoded()
    images = images.take(EXAMPLES)
    images = images.cache(cache_file())
    images = images.batch(32)
    return images.prefetch(tf.data.AUTOTUNE)
