import os

import tensorflow as tf

PROOF = "throughput"
KIND = "serial-map"
GAIN = True
SAME_CALLS = True

DATA = os.environ["PLANTED_DATA"]
AUTO = tf.data.AUTOTUNE


def image_of(record):
    png = tf.io.parse_single_example(record, {"image": tf.io.FixedLenFeature([], tf.string)})["image"]
    return tf.io.decode_png(png, channels=3)


def finish(images):
    return images.repeat().shuffle(128).batch(16, drop_remainder=True).prefetch(AUTO)


def make_dataset():
    shards = tf.data.Dataset.list_files(DATA + "/photos/*.tfrecord", seed=1)
    images = shards.flat_map(
        lambda shard: tf.data.TFRecordDataset(shard, buffer_size=1 << 20).map(image_of)  # FAULT
    )
    return finish(images)


def make_dataset_fixed():
    shards = tf.data.Dataset.list_files(DATA + "/photos/*.tfrecord", seed=1)
    images = shards.flat_map(
        lambda shard: tf.data.TFRecordDataset(shard, buffer_size=1 << 20).map(
            image_of, num_parallel_calls=AUTO
        )
    )
    return finish(images)
