"""Photographs for a classifier, flipped and relit at random."""

import os
from pathlib import Path

import tensorflow as tf

PROOF = "throughput"
KIND = "serial-map"
GAIN = True
SAME_CALLS = True

DATA = os.environ["PLANTED_DATA"]

FEATURES = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "some_text": tf.io.FixedLenFeature([8], tf.int64),
}


class PhotoFeed:
    """Reads the shards of a folder."""

    def __init__(self, folder: str, batch_size: int = 32) -> None:
        self.files = sorted(str(path) for path in Path(folder).glob("*.tfrecord"))
        self.batch_size = batch_size

    def records(self):
        return tf.data.TFRecordDataset(self.files).shuffle(256).repeat()

    def example(self, record):
        parsed = tf.io.parse_single_example(record, FEATURES)
        image = tf.io.decode_png(parsed["image"], channels=3)
        image = tf.ensure_shape(image, [128, 128, 3])
        return self.augment(image), parsed["some_text"]

    def augment(self, image):
        image = tf.image.random_flip_left_right(image)
        image = tf.image.random_brightness(image, 0.2)
        return tf.image.random_contrast(image, 0.8, 1.2)

    def batched(self, examples):
        return examples.batch(self.batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def make_dataset():
    feed = PhotoFeed(f"{DATA}/photos")
    examples = feed.records().map(feed.example)  # FAULT
    return feed.batched(examples)


def make_dataset_fixed():
    feed = PhotoFeed(f"{DATA}/photos")
    examples = feed.records().map(feed.example, num_parallel_calls=tf.data.AUTOTUNE)
    return feed.batched(examples)
