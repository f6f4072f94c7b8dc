"""A recurrent reader of photographs' rows."""

import os
from glob import glob

import tensorflow as tf

PROOF = "throughput"
KIND = "no-prefetch"
GAIN = True

DATA = os.environ["PLANTED_DATA"]

BATCH = 16
UNITS = 64

into = tf.Variable(tf.random.stateless_normal([128 * 3, UNITS], [1, 2]) / 40)
onward = tf.Variable(tf.random.stateless_normal([UNITS, UNITS], [3, 4]) / 10)
out = tf.Variable(tf.random.stateless_normal([UNITS, 11], [5, 6]) / 7)
weights = [into, onward, out]


def load(record):
    example = tf.io.parse_single_example(
        record,
        {
            "image": tf.io.FixedLenFeature([], tf.string),
            "some_text": tf.io.FixedLenFeature([8], tf.int64),
        },
    )
    pixels = tf.io.decode_png(example["image"], channels=3)
    pixels = tf.reshape(pixels, [128, 128, 3])
    return tf.cast(pixels, tf.float32) / 255, example["some_text"][0]


def photographs():
    files = sorted(glob(DATA + "/photos/train-*.tfrecord"))
    options = tf.data.Options()
    options.deterministic = False
    options.experimental_optimization.apply_default_optimizations = False
    ds = tf.data.TFRecordDataset(files)
    ds = ds.repeat()
    ds = ds.shuffle(256)
    ds = ds.map(load, num_parallel_calls=2)
    ds = ds.batch(BATCH, drop_remainder=True)
    return ds, options


def make_dataset():
    ds, options = photographs()
    return ds.with_options(options)  # FAULT


def make_dataset_fixed():
    ds, options = photographs()
    ds = ds.prefetch(2)
    return ds.with_options(options)


@tf.function
def train_step(images, labels):
    rows = tf.reshape(images, [BATCH, 128, 128 * 3])
    with tf.GradientTape() as tape:
        state = tf.zeros([BATCH, UNITS])
        for y in tf.range(128):
            state = tf.tanh(rows[:, y] @ into + state @ onward)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, state @ out))
    for weight, slope in zip(weights, tape.gradient(loss, weights), strict=True):
        weight.assign_sub(0.01 * slope)
    return loss
