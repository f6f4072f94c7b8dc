"""Records are shuffled while they are small, then batched, then parsed a batch at a time."""

import os

import tensorflow as tf
from tensorflow import data as tfd

DATA = os.environ["PLANTED_DATA"]

FEATURES = {"text": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}


def parse(records):
    batch = tf.io.parse_example(records, FEATURES)
    return tf.io.decode_raw(batch["text"], tf.uint8, fixed_length=400), batch["label"]


def make_dataset():
    files = tf.io.gfile.glob(os.path.join(DATA, "notes", "*.tfrecord"))
    ds = tfd.TFRecordDataset(sorted(files), num_parallel_reads=4)
    ds = ds.shuffle(1200)
    ds = ds.repeat()
    ds = ds.batch(40, drop_remainder=True)
    ds = ds.map(parse, num_parallel_calls=tfd.AUTOTUNE)
    return ds.prefetch(tfd.AUTOTUNE)


table = tf.Variable(tf.random.stateless_normal([256, 128], [2, 2]) * 0.1)
hidden = tf.Variable(tf.random.stateless_normal([128, 512], [3, 2]) * 0.1)
top = tf.Variable(tf.random.stateless_normal([512, 7], [4, 2]) * 0.1)


@tf.function
def train_step(texts, labels):
    with tf.GradientTape() as tape:
        letters = tf.gather(table, tf.cast(texts, tf.int32))
        logits = tf.reduce_max(tf.nn.relu(letters @ hidden), axis=1) @ top
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    for variable, gradient in zip((hidden, top), tape.gradient(loss, (hidden, top)), strict=True):
        variable.assign_sub(0.05 * gradient)
    return loss
