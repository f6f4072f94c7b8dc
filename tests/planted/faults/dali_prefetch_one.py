"""A recurrent reader of scans, row by row; every fourth step also measures it on a held-out batch."""

import glob
import os

import numpy as np
import tensorflow as tf
from nvidia.dali import fn, types
from nvidia.dali import tfrecord as tfrec
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.plugin.tf import DALIDataset

PROOF = "throughput"
KIND = "dali-prefetch"
GAIN = True
SAME_CALLS = True
REQUIRES = "dali"

BATCH, SIDE, UNITS, CLASSES = 32, 96, 32, 10
EVERY = 4


def build_pipeline():
    shards = sorted(glob.glob(os.environ["PLANTED_DATA"] + "/scans/*.tfrecord"))
    pipeline = Pipeline(BATCH, 1, None, seed=1)
    with pipeline:
        record = fn.readers.tfrecord(
            path=shards,
            index_path=[shard + ".idx" for shard in shards],
            features={
                "image": tfrec.FixedLenFeature((), tfrec.string, ""),
                "label": tfrec.FixedLenFeature([1], tfrec.int64, 0),
            },
        )
        image = fn.decoders.image(record["image"], output_type=types.GRAY)
        pipeline.set_outputs(fn.cast(image, dtype=types.FLOAT) / 255.0, record["label"])
    return pipeline


def element():
    return {
        "batch_size": BATCH,
        "output_shapes": ((BATCH, SIDE, SIDE, 1), (BATCH, 1)),
        "output_dtypes": (tf.float32, tf.int64),
        "num_threads": 1,
        "device_id": None,
    }


def make_dataset():
    with tf.device("/cpu:0"):
        return DALIDataset(build_pipeline(), prefetch_queue_depth=1, **element())  # FAULT


def make_dataset_fixed():
    with tf.device("/cpu:0"):
        return DALIDataset(build_pipeline(), prefetch_queue_depth=6, **element())


rng = np.random.default_rng(0)
w_row = tf.Variable(rng.normal(0, 0.05, (SIDE, UNITS)).astype("f"))
w_state = tf.Variable(rng.normal(0, 0.05, (UNITS, UNITS)).astype("f"))
w_class = tf.Variable(rng.normal(0, 0.05, (UNITS, CLASSES)).astype("f"))
held_out = tf.constant(rng.random((BATCH, SIDE, SIDE)).astype("f"))
steps = 0


def read_rows(rows):
    state = tf.zeros([BATCH, UNITS])
    for row in tf.range(SIDE):
        state = tf.tanh(rows[:, row] @ w_row + state @ w_state)
    return state @ w_class


@tf.function
def fit(images, labels):
    with tf.GradientTape() as tape:
        logits = read_rows(images[..., 0])
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels[:, 0], logits=logits)
    for weight, gradient in zip((w_class,), tape.gradient(loss, (w_class,)), strict=True):
        weight.assign_sub(0.01 * gradient)
    return tf.reduce_mean(loss)


@tf.function
def measure():
    entropy = tf.constant(0.0)
    for _ in tf.range(8):
        p = tf.nn.softmax(read_rows(held_out))
        entropy -= tf.reduce_mean(tf.reduce_sum(p * tf.math.log(p), axis=1))
    return entropy


def train_step(images, labels):
    global steps  # noqa: PLW0603
    steps += 1
    loss = fit(images, labels)
    if steps % EVERY == 0:
        measure()
    return loss
