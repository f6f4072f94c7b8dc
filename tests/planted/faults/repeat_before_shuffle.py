import os

import tensorflow as tf

PROOF = "order"
KIND = "repeat-before-shuffle"
SAME_CALLS = True

DATA = os.environ["PLANTED_DATA"]
FILES = [f"{DATA}/lines/train-{n:05d}-of-00008.tfrecord" for n in (2, 5)]


def parse(r):
    p = tf.io.parse_single_example(
        r, {k: tf.io.FixedLenFeature([], tf.string) for k in ("image", "image_id")}
    )
    return tf.reshape(tf.io.decode_png(p["image"], 3), (32, 128, 3)), p["image_id"]


def make_dataset():
    ds = tf.data.TFRecordDataset(FILES)
    return ds.repeat().shuffle(1000).map(parse, tf.data.AUTOTUNE).batch(16).prefetch(4)  # FAULT


def make_dataset_fixed():
    ds = tf.data.TFRecordDataset(FILES)
    return ds.shuffle(1000).repeat().map(parse, tf.data.AUTOTUNE).batch(16).prefetch(4)
