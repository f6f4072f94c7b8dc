"""Thumbnails are smaller than their PNG files: shuffling what was decoded takes less memory, not more."""

import glob
import os

import tensorflow as tf

DATA = os.environ["PLANTED_DATA"]

AUTO = tf.data.AUTOTUNE


def load(record):
    f = tf.io.parse_single_example(
        record,
        {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)},
    )
    img = tf.io.decode_png(f["image"], channels=3)
    img = tf.image.resize(img, (12, 12))
    return img / 127.5 - 1.0, f["label"]


def make_dataset():
    return (
        tf.data.TFRecordDataset(glob.glob(DATA + "/scans/*.tfrecord"), num_parallel_reads=2)
        .map(load, num_parallel_calls=AUTO)
        .shuffle(1000, reshuffle_each_iteration=True)
        .batch(16, drop_remainder=True)
        .prefetch(2)
    )
