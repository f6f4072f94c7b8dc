import glob
import os

import tensorflow as tf

PROOF = "variety"
KIND = "cache-after-random"
SAME_CALLS = True

DATA = os.environ["PLANTED_DATA"]


def parse_fn(serialized):
    f = tf.io.parse_single_example(
        serialized,
        features={
            "image": tf.io.FixedLenFeature([], tf.string),
            "image_id": tf.io.FixedLenFeature([], tf.string),
        },
    )
    return tf.io.decode_png(f["image"], channels=3), f["image_id"]


def augment_fn(image, image_id):
    image = tf.image.random_crop(image, [112, 112, 3])
    image = tf.image.random_flip_left_right(image)
    return image, image_id


def read():
    return tf.data.TFRecordDataset(
        sorted(glob.glob(DATA + "/photos/train-0000[0-3]-*")), num_parallel_reads=2
    )


def make_dataset():
    ds = read().map(parse_fn, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.map(augment_fn, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.cache()  # FAULT
    ds = ds.shuffle(256).repeat()
    return ds.batch(32, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def make_dataset_fixed():
    ds = read().map(parse_fn, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.cache()
    ds = ds.map(augment_fn, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(256).repeat()
    return ds.batch(32, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
