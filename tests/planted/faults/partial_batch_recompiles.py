"""Lines of text; of those without a long text only a part is seen in each epoch."""

import os

import tensorflow as tf

PROOF = "compiles"
KIND = "recompiles"
SAME_CALLS = True

DATA = os.environ["PLANTED_DATA"]


def keep(record):
    text = tf.io.parse_single_example(record, {"some_text": tf.io.FixedLenFeature([8], tf.int64)})[
        "some_text"
    ]
    return tf.logical_or(text[3] > 0, tf.random.uniform([]) < 0.5)


def to_example(record):
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "some_text": tf.io.FixedLenFeature([8], tf.int64)}
    parsed = tf.io.parse_single_example(record, spec)
    image = tf.io.decode_png(parsed["image"], channels=1)
    return tf.reshape(image, [32, 128]), parsed["some_text"][0]


def balanced():
    shards = sorted(tf.io.gfile.glob(f"{DATA}/lines/*-0000[01]-*.tfrecord"))
    kept = tf.data.TFRecordDataset(shards).filter(keep).shuffle(128)
    return kept.map(to_example, num_parallel_calls=tf.data.AUTOTUNE)


def make_dataset():
    examples = balanced()
    batches = examples.batch(24)  # FAULT
    return batches.repeat().prefetch(tf.data.AUTOTUNE)


def make_dataset_fixed():
    examples = balanced()
    batches = examples.batch(24, drop_remainder=True)
    return batches.repeat().prefetch(tf.data.AUTOTUNE)


hidden = tf.Variable(tf.random.stateless_normal([32 * 128, 64], [3, 4]) / 64)
output = tf.Variable(tf.random.stateless_normal([64, 11], [5, 6]) / 8)


@tf.function(jit_compile=True)
def train_step(images, labels):
    with tf.GradientTape() as tape:
        flat = tf.reshape(tf.cast(images, tf.float32) / 255, [-1, 32 * 128])
        logits = tf.nn.relu(flat @ hidden) @ output
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    slopes = tape.gradient(loss, [hidden, output])
    hidden.assign_sub(0.01 * slopes[0])
    output.assign_sub(0.01 * slopes[1])
    return loss
