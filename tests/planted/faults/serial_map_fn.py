"""The validation photographs, all in one batch: they are scored after every epoch of training."""

import glob
import os

import tensorflow as tf

PROOF = "throughput"
KIND = "serial-map-fn"
GAIN = True
SAME_CALLS = True

DATA = os.environ["PLANTED_DATA"]
VALIDATION = sorted(glob.glob(os.path.join(DATA, "photos", "*-0000[4-7]-of-*")))
IMAGES = 256


def parse(batch):
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "some_text": tf.io.FixedLenFeature([8], tf.int64)}
    return tf.io.parse_example(batch, spec)


def scaled(png):
    image = tf.image.convert_image_dtype(tf.io.decode_png(png, channels=3), tf.float32)
    return tf.image.resize(tf.reshape(image, [128, 128, 3]), [96, 96])


IMAGE = tf.TensorSpec([96, 96, 3], tf.float32)


def make_dataset():
    def decode(batch):
        parsed = parse(batch)
        images = tf.map_fn(scaled, parsed["image"], parallel_iterations=1, fn_output_signature=IMAGE)  # FAULT
        return images, parsed["some_text"]

    records = tf.data.TFRecordDataset(VALIDATION)
    return records.batch(IMAGES).map(decode, num_parallel_calls=tf.data.AUTOTUNE).prefetch(1)


def make_dataset_fixed():
    def decode(batch):
        parsed = parse(batch)
        images = tf.map_fn(scaled, parsed["image"], parallel_iterations=16, fn_output_signature=IMAGE)
        return images, parsed["some_text"]

    records = tf.data.TFRecordDataset(VALIDATION)
    return records.batch(IMAGES).map(decode, num_parallel_calls=tf.data.AUTOTUNE).prefetch(1)
