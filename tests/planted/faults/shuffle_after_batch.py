import os

import tensorflow as tf

PROOF = "variety"
KIND = "shuffle-after-batch"
SAME_CALLS = True

DATA = os.environ["PLANTED_DATA"]

FEATURES = {
    "image": tf.io.FixedLenFeature((), tf.string),
    "some_text": tf.io.FixedLenFeature((8,), tf.int64),
}


def _decode(record):
    feats = tf.io.parse_single_example(record, FEATURES)
    img = tf.io.decode_image(feats["image"], channels=3, expand_animations=False)
    img.set_shape((32, 128, 3))
    return img, feats["some_text"]


def make_dataset():
    return (
        tf.data.Dataset.list_files(f"{DATA}/lines/train-*", shuffle=True)
        .interleave(tf.data.TFRecordDataset, cycle_length=1)
        .map(_decode, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(32)
        .shuffle(512)  # FAULT
        .prefetch(tf.data.AUTOTUNE)
    )


def make_dataset_fixed():
    return (
        tf.data.Dataset.list_files(f"{DATA}/lines/train-*", shuffle=True)
        .interleave(tf.data.TFRecordDataset, cycle_length=1)
        .shuffle(512)
        .map(_decode, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(32)
        .prefetch(tf.data.AUTOTUNE)
    )
