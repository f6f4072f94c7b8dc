# Read all shards at once, decode where they are read; all shards have one size.
import os
from pathlib import Path

import tensorflow as tf

ROOT = Path(os.environ["PLANTED_DATA"])
SPEC = {"image": tf.io.FixedLenFeature((), tf.string), "label": tf.io.FixedLenFeature((), tf.int64)}


def read_one(path):
    def to_pair(serialized):
        parsed = tf.io.parse_single_example(serialized, SPEC)
        picture = tf.image.convert_image_dtype(tf.io.decode_png(parsed["image"], 3), tf.float32)
        return tf.image.random_flip_left_right(tf.ensure_shape(picture, (96, 96, 3))), parsed["label"]

    return tf.data.TFRecordDataset(path).map(to_pair)


def make_dataset():
    files = sorted(str(path) for path in (ROOT / "scans").glob("*.tfrecord"))
    paths = tf.data.Dataset.from_tensor_slices(files)
    pairs = paths.interleave(read_one, cycle_length=4, num_parallel_calls=4, deterministic=False)
    return pairs.shuffle(256).batch(32).prefetch(2)
