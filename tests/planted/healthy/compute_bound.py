"""A small network on photographs: the step takes far longer than the reading."""

import os
from pathlib import Path

import tensorflow as tf

DATA = os.environ["PLANTED_DATA"]
FEATURES = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "some_text": tf.io.FixedLenFeature([8], tf.int64),
}

network = tf.keras.Sequential(
    [
        tf.keras.layers.Input([128, 128, 3]),
        tf.keras.layers.Rescaling(1 / 255),
        tf.keras.layers.Conv2D(24, 3, strides=2, activation="relu"),
        tf.keras.layers.Conv2D(48, 3, activation="relu"),
        tf.keras.layers.Conv2D(48, 3, activation="relu"),
        tf.keras.layers.GlobalAveragePooling2D(),
        tf.keras.layers.Dense(11),
    ]
)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def decode(record):
    parsed = tf.io.parse_single_example(record, FEATURES)
    image = tf.io.decode_png(parsed["image"], channels=3)
    return tf.ensure_shape(image, [128, 128, 3]), parsed["some_text"][2]


def make_dataset():
    shards = [str(shard) for shard in sorted(Path(DATA, "photos").glob("*.tfrecord"))]
    dataset = tf.data.Dataset.from_tensor_slices(shards).shuffle(len(shards))
    dataset = dataset.interleave(tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=2)
    dataset = dataset.shuffle(256).repeat()
    dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.batch(16, drop_remainder=True).prefetch(2)


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, network(images, training=True))
    weights = network.trainable_variables
    for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
        weight.assign_sub(0.01 * gradient)
    return loss
