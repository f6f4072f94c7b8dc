"""A private thread pool on purpose: as many threads as cores."""

import os
import pathlib

import tensorflow as tf

FOLDER = pathlib.Path(os.environ["PLANTED_DATA"], "scans")


def with_threads(count):
    options = tf.data.Options()
    options.threading.private_threadpool_size = count
    return options


def decode(serialized):
    schema = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    example = tf.io.parse_single_example(serialized, schema)
    image = tf.io.decode_png(example["image"], channels=3)
    image = tf.image.resize(tf.ensure_shape(image, [96, 96, 3]), (64, 64), method="bicubic")
    return image / 255.0, example["label"]


def make_dataset():
    shards = [str(shard) for shard in sorted(FOLDER.glob("*.tfrecord"))]
    records = tf.data.TFRecordDataset(shards).shuffle(300).repeat()
    decoded = records.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    return decoded.batch(32).prefetch(4).with_options(with_threads(os.cpu_count()))
