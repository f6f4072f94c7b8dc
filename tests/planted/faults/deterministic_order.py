import glob
import os

import tensorflow as tf

DATA = os.environ["PLANTED_DATA"]

PROOF = "throughput"
KIND = "deterministic-order"
GAIN = True
SAME_CALLS = True

SIDE = 96
EPOCHS = 8


class Scans:
    """Scans of several cameras, a shard each; they are not all of one size."""

    def __init__(self, pattern):
        self.features = {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
        }
        self.files = tf.data.Dataset.from_tensor_slices(sorted(glob.glob(pattern))).repeat(EPOCHS)

    def decode(self, record):
        example = tf.io.parse_single_example(record, self.features)
        image = tf.io.decode_png(example["image"], channels=3)
        image = tf.image.resize(image, [SIDE, SIDE])
        return tf.ensure_shape(image, [SIDE, SIDE, 3]), example["label"]

    def shard(self, path):
        return tf.data.TFRecordDataset(path).map(self.decode)


def make_dataset():
    scans = Scans(os.path.join(DATA, "scans-one-heavy", "*.tfrecord"))
    records = scans.files.interleave(scans.shard, 4, num_parallel_calls=4, deterministic=True)  # FAULT
    return records.batch(16).prefetch(tf.data.AUTOTUNE)


def make_dataset_fixed():
    scans = Scans(os.path.join(DATA, "scans-one-heavy", "*.tfrecord"))
    records = scans.files.interleave(scans.shard, 4, num_parallel_calls=4, deterministic=False)
    return records.batch(16).prefetch(tf.data.AUTOTUNE)
