"""Scans for a classifier at twice their size."""

import glob
import os

import tensorflow as tf

DATA = os.environ["PLANTED_DATA"]

PROOF = "memory"
KIND = "shuffle-decoded"
SAME_CALLS = True

AUTO = tf.data.AUTOTUNE


def load(record):
    f = tf.io.parse_single_example(
        record,
        {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)},
    )
    img = tf.io.decode_png(f["image"], channels=3)
    img = tf.image.resize(img, (192, 192))
    return img / 127.5 - 1.0, f["label"]


def records():
    return tf.data.TFRecordDataset(glob.glob(DATA + "/scans/*.tfrecord"), num_parallel_reads=2)


def make_dataset():
    return (
        records()
        .map(load, num_parallel_calls=AUTO)
        .shuffle(1000, reshuffle_each_iteration=True)  # FAULT
        .batch(16, drop_remainder=True)
        .prefetch(2)
    )


def make_dataset_fixed():
    return (
        records()
        .shuffle(1000, reshuffle_each_iteration=True)
        .map(load, num_parallel_calls=AUTO)
        .batch(16, drop_remainder=True)
        .prefetch(2)
    )
