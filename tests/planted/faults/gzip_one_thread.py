import os
from glob import glob

import tensorflow as tf

PROOF = "throughput"
KIND = "serial-decompression"
GAIN = True
SAME_CALLS = True

POINTS = 8192


def make_dataset():
    files = sorted(glob(os.path.join(os.environ["PLANTED_DATA"], "spectra-gzip", "*.gz")))
    spectra = tf.data.TFRecordDataset(files, compression_type="GZIP")  # FAULT
    return finish(spectra)


def make_dataset_fixed():
    files = sorted(glob(os.path.join(os.environ["PLANTED_DATA"], "spectra-gzip", "*.gz")))
    spectra = tf.data.TFRecordDataset(files, compression_type="GZIP", num_parallel_reads=4)
    return finish(spectra)


def finish(spectra):
    def parse(batch):
        columns = {
            "signal": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        }
        columns = tf.io.parse_example(batch, columns)
        return tf.io.decode_raw(columns["signal"], tf.float32, fixed_length=4 * POINTS), columns["label"]

    return spectra.repeat(2).batch(16, drop_remainder=True).map(parse).prefetch(2)
