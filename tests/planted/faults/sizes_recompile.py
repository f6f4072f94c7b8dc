"""One image at a time, as detectors are trained."""

import os

import tensorflow as tf

PROOF = "compiles"
KIND = "recompiles"

DATA = os.environ["PLANTED_DATA"]


def reader(fit):
    def read(record):
        feats = tf.io.parse_single_example(record, {"image": tf.io.FixedLenFeature([], tf.string)})
        return fit(tf.io.decode_png(feats["image"], channels=3))

    return read


def make_dataset():
    files = tf.data.Dataset.list_files(DATA + "/sizes/*.tfrecord")
    ds = tf.data.TFRecordDataset(files).shuffle(200).repeat()
    ds = ds.map(reader(tf.identity), num_parallel_calls=4)  # FAULT
    return ds.batch(1).prefetch(8)


def make_dataset_fixed():
    files = tf.data.Dataset.list_files(DATA + "/sizes/*.tfrecord")
    ds = tf.data.TFRecordDataset(files).shuffle(200).repeat()
    ds = ds.map(reader(lambda image: tf.image.resize_with_crop_or_pad(image, 128, 136)), num_parallel_calls=4)
    return ds.batch(1).prefetch(8)


kernel = tf.Variable(tf.random.stateless_normal([8, 8, 3, 16], [7, 8]) / 14)


@tf.function(jit_compile=True)
def train_step(images):
    scaled = tf.cast(images, tf.float32) / 255
    with tf.GradientTape() as tape:
        cells = tf.nn.relu(tf.nn.conv2d(scaled, kernel, strides=8, padding="VALID"))
        loss = tf.reduce_mean(tf.square(tf.reduce_mean(cells, axis=[1, 2]) - 0.5))
    kernel.assign_sub(0.1 * tape.gradient(loss, kernel))
    return loss
