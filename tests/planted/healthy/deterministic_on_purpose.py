"""The same order in every run: the shards are alike, so that nobody waits for one of them."""

import glob
import os

import tensorflow as tf

DATA = os.environ["PLANTED_DATA"]


class Scans:
    def __init__(self, pattern):
        self.features = {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        }
        self.files = tf.data.Dataset.from_tensor_slices(sorted(glob.glob(pattern))).repeat(3)

    def decode(self, record):
        example = tf.io.parse_single_example(record, self.features)
        image = tf.io.decode_png(example["image"], channels=3)
        image = tf.image.resize(image, [96, 96])
        return tf.ensure_shape(image, [96, 96, 3]), example["label"]

    def shard(self, path):
        return tf.data.TFRecordDataset(path).map(self.decode)


def make_dataset():
    scans = Scans(os.path.join(DATA, "scans", "*.tfrecord"))
    records = scans.files.interleave(scans.shard, 4, num_parallel_calls=4, deterministic=True)
    return records.batch(16).prefetch(tf.data.AUTOTUNE)
