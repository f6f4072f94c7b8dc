import functools
import os
import pathlib

import tensorflow as tf

PROOF = "throughput"
KIND = "private-threadpool"
GAIN = True
SAME_CALLS = True

FOLDER = pathlib.Path(os.environ["PLANTED_DATA"], "scans")


def with_threads(count):
    options = tf.data.Options()
    options.threading.private_threadpool_size = count
    return options


@functools.cache
def schema():
    return {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def decode(serialized, size):
    example = tf.io.parse_single_example(serialized, schema())
    image = tf.io.decode_png(example["image"], channels=3)
    image = tf.image.resize(tf.ensure_shape(image, [96, 96, 3]), size, method="bicubic")
    return image / 255.0, example["label"]


def scans():
    shards = [str(shard) for shard in sorted(FOLDER.glob("*.tfrecord"))]
    records = tf.data.TFRecordDataset(shards).shuffle(300).repeat()
    decoded = records.map(functools.partial(decode, size=(64, 64)), num_parallel_calls=tf.data.AUTOTUNE)
    return decoded.batch(32).prefetch(4)


def make_dataset():
    return scans().with_options(with_threads(1))  # FAULT


def make_dataset_fixed():
    return scans().with_options(with_threads(os.cpu_count()))
