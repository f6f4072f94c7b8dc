"""Short texts, one file for every customer."""

import os

import tensorflow as tf
from tensorflow import data as tfd

DATA = os.environ["PLANTED_DATA"]
PROOF = "throughput"
KIND = "tiny-shards"
SAME_CALLS = True

FEATURES = {"text": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def parse(records):
    batch = tf.io.parse_example(records, FEATURES)
    return tf.io.decode_raw(batch["text"], tf.uint8), batch["label"]


def make_dataset():
    files = tf.io.gfile.glob(os.path.join(DATA, "notes-tiny", "*.tfrecord"))
    ds = tfd.TFRecordDataset(sorted(files), num_parallel_reads=4)  # FAULT
    ds = ds.shuffle(512)
    ds = ds.repeat(3)
    ds = ds.batch(40, drop_remainder=True)
    ds = ds.map(parse, num_parallel_calls=tfd.AUTOTUNE)
    ds = ds.prefetch(tfd.AUTOTUNE)
    return ds  # noqa: RET504


def make_dataset_fixed():
    files = tf.io.gfile.glob(os.path.join(DATA, "notes", "*.tfrecord"))
    ds = tfd.TFRecordDataset(sorted(files), num_parallel_reads=4)
    ds = ds.shuffle(512)
    ds = ds.repeat(3)
    ds = ds.batch(40, drop_remainder=True)
    ds = ds.map(parse, num_parallel_calls=tfd.AUTOTUNE)
    ds = ds.prefetch(tfd.AUTOTUNE)
    return ds  # noqa: RET504
