"""Who buys: the clicks of a visit. The shards also keep a preview of the page, for people to look at."""

import os

import tensorflow as tf

DATA = os.environ["PLANTED_DATA"]
PROOF = "throughput"
KIND = "unused-bytes"
SAME_CALLS = True

COLUMNS = {"clicks": tf.io.FixedLenFeature([64], tf.int64), "bought": tf.io.FixedLenFeature([], tf.int64)}
weights = tf.Variable(tf.zeros([5000]))


def shards(name):
    return sorted(tf.io.gfile.glob(f"{DATA}/{name}/*.tfrecord"))


def columns(record):
    visit = tf.io.parse_single_example(record, COLUMNS)
    return visit["clicks"], tf.cast(visit["bought"], tf.float32)


def make_dataset():
    return tf.data.TFRecordDataset(shards("visits-wide")).map(columns).batch(16).repeat(4)  # FAULT


def make_dataset_fixed():
    return tf.data.TFRecordDataset(shards("visits")).map(columns).batch(16).repeat(4)


@tf.function
def train_step(clicks, bought):
    with tf.GradientTape() as tape:
        logits = tf.reduce_sum(tf.gather(weights, clicks), axis=1)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=bought, logits=logits))
    weights.assign_sub(0.1 * tf.convert_to_tensor(tape.gradient(loss, weights)))
    return loss
