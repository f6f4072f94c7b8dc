"""Compressed shards, read several at once."""

import os
from glob import glob

import tensorflow as tf

POINTS = 8192


def parse(batch):
    columns = {"signal": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    columns = tf.io.parse_example(batch, columns)
    return tf.io.decode_raw(columns["signal"], tf.float32, fixed_length=4 * POINTS), columns["label"]


def make_dataset():
    files = sorted(glob(os.path.join(os.environ["PLANTED_DATA"], "spectra-gzip", "*.gz")))
    spectra = tf.data.TFRecordDataset(files, compression_type="GZIP", num_parallel_reads=4)
    return spectra.repeat().batch(16, drop_remainder=True).map(parse).prefetch(2)
