import itertools
import os

import tensorflow as tf

PROOF = "compiles"
KIND = "retraces"

DATA = os.environ["PLANTED_DATA"]


def make_dataset():
    def parse(record):
        spec = {
            "image": tf.io.FixedLenFeature([], tf.string),
            "some_text": tf.io.FixedLenFeature([8], tf.int64),
        }
        parsed = tf.io.parse_example(record, spec)
        images = tf.map_fn(
            lambda png: tf.io.decode_png(png, 3), parsed["image"], fn_output_signature=tf.uint8
        )
        return tf.reshape(images, [32, 32, 128, 3]), parsed["some_text"]

    shards = sorted(tf.io.gfile.glob(DATA + "/lines/*.tfrecord"))
    records = tf.data.TFRecordDataset(shards).shuffle(512).repeat().batch(32, drop_remainder=True)
    return records.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


class Trainer:
    def __init__(self):
        self.weights = tf.Variable(tf.zeros([32 * 128 * 3, 11]))
        self.steps = itertools.count()

    @tf.function
    def update(self, images, tokens, step):
        rate = 0.1 * 0.99 ** tf.cast(step, tf.float32)
        flat = tf.reshape(tf.cast(images, tf.float32) / 255 - 0.5, [32, -1])
        with tf.GradientTape() as tape:
            logits = flat @ self.weights
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tokens[:, 2], logits=logits)
            )
        self.weights.assign_sub(rate * tape.gradient(loss, self.weights))
        return loss


trainer = Trainer()


def train_step(images, tokens):
    step = next(trainer.steps)
    return trainer.update(images, tokens, step)  # FAULT


def train_step_fixed(images, tokens):
    step = tf.constant(next(trainer.steps))
    return trainer.update(images, tokens, step)
