"""A long epoch: records drawn with replacement, by a table that balances the classes."""

import os

import numpy as np
import tensorflow as tf

PROOF = "memory"
KIND = "cache-too-large"
SAME_CALLS = True

DATA = os.environ["PLANTED_DATA"]
DRAWS = 250_000

rng = np.random.default_rng(11)


def table(pattern):
    files = tf.data.Dataset.list_files(pattern, shuffle=False)
    return np.array(list(tf.data.TFRecordDataset(files).as_numpy_iterator()), dtype=object)


def loader_of(records):
    records = tf.constant(records)

    def load(index):
        wanted = {"image": tf.io.FixedLenFeature([], tf.string)}
        png = tf.io.parse_single_example(records[index], wanted)["image"]
        image = tf.reshape(tf.io.decode_png(png, channels=3), [128, 128, 3])
        return tf.image.resize(image, [224, 224])

    return load


def make_dataset():
    records = table(DATA + "/photos/*")
    draws = tf.data.Dataset.from_tensor_slices(rng.integers(0, len(records), DRAWS))
    images = draws.map(loader_of(records), num_parallel_calls=tf.data.AUTOTUNE).cache()  # FAULT
    return images.batch(16).prefetch(1)


def make_dataset_fixed():
    records = table(DATA + "/photos/*")
    draws = tf.data.Dataset.from_tensor_slices(rng.integers(0, len(records), DRAWS))
    images = draws.cache().map(loader_of(records), num_parallel_calls=tf.data.AUTOTUNE)
    return images.batch(16).prefetch(1)
