"""Blocks from a network file system."""

import os

import tensorflow as tf

DATA = os.environ["PLANTED_DATA"]

PROOF = "throughput"
KIND = "slow-storage"
GAIN = True
SAME_CALLS = True
REQUIRES = "gcc"


def prepare(data):
    """What the process's environment must hold when it starts."""
    folder = os.path.realpath(os.path.join(data, "remote"))
    return {"LD_PRELOAD": os.path.join(folder, "throttle.so"), "THROTTLED_FOLDER": folder}


ENVIRONMENT = prepare(DATA)

BLOCK = {"block": tf.io.FixedLenFeature([], tf.string)}
SHARDS = tf.io.gfile.glob(f"{DATA}/remote/part-*.tfrecord")


def to_numbers(records):
    blocks = tf.io.decode_raw(tf.io.parse_example(records, BLOCK)["block"], tf.uint8, fixed_length=32768)
    return tf.cast(blocks, tf.float32)


def batches(records):
    return records.shuffle(64).batch(16, drop_remainder=True).map(to_numbers).prefetch(4)


def make_dataset():
    records = tf.data.TFRecordDataset(SHARDS)  # FAULT
    return batches(records)


def make_dataset_fixed():
    records = tf.data.TFRecordDataset(SHARDS, num_parallel_reads=16)
    return batches(records)
