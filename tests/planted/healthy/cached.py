"""Photographs, decoded once and kept in memory; each epoch sees them cropped anew."""

import glob
import os

import tensorflow as tf

DATA = os.environ["PLANTED_DATA"]


def decode(record):
    parsed = tf.io.parse_single_example(
        record,
        {"image": tf.io.FixedLenFeature([], tf.string), "image_id": tf.io.FixedLenFeature([], tf.string)},
    )
    return tf.reshape(tf.io.decode_png(parsed["image"], channels=3), [128, 128, 3]), parsed["image_id"]


def crop(image, image_id):
    return tf.image.random_crop(image, [112, 112, 3]), image_id


def make_dataset():
    files = sorted(glob.glob(DATA + "/photos/*.tfrecord"))
    return (
        tf.data.TFRecordDataset(files, num_parallel_reads=2)
        .map(decode, num_parallel_calls=tf.data.AUTOTUNE)
        .cache()
        .shuffle(512)
        .map(crop, num_parallel_calls=tf.data.AUTOTUNE)
        .repeat()
        .batch(32, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )
