"""A reader of text lines in photographs: shards of PNGs, and a step that XLA compiles."""

import os

import tensorflow as tf

PROOF = "compiles"
KIND = "recompiles"
SECOND_KIND = "shuffle-after-batch"

DATA = os.environ["PLANTED_DATA"]
BATCH_SIZE = 16
MAX_LEN = 8
HEIGHT, WIDTH = 128, 128
CYCLE_LENGTH = PARALLEL_CALLS = 4


def decode_image(png):
    image = tf.io.decode_png(png, channels=3)
    image = tf.reshape(image, (HEIGHT, WIDTH, 3))
    return tf.cast(image, tf.uint8)


def decode_batch(records, test=False):
    features = {
        "image": tf.io.FixedLenFeature([], tf.string, default_value=""),
        "some_text": tf.io.FixedLenFeature([MAX_LEN], tf.int64, default_value=[0] * MAX_LEN),
        "image_id": tf.io.FixedLenFeature([], tf.string, default_value=""),
    }
    parsed = tf.io.parse_example(records, features)
    images = tf.map_fn(
        decode_image,
        parsed["image"],
        parallel_iterations=4,
        fn_output_signature=tf.TensorSpec((HEIGHT, WIDTH, 3), tf.uint8),
    )
    if test:
        return images, parsed["image_id"]
    return images, tf.cast(parsed["some_text"], tf.uint8)


def make_dataset(test=False):
    filenames = sorted(tf.io.gfile.glob(os.path.join(DATA, "photos", "*.tfrecord")))
    dataset = tf.data.Dataset.from_tensor_slices(filenames)
    dataset = dataset.interleave(
        tf.data.TFRecordDataset,
        cycle_length=CYCLE_LENGTH,
        num_parallel_calls=PARALLEL_CALLS,
        deterministic=False,
    )
    dataset = dataset.batch(BATCH_SIZE, drop_remainder=True, num_parallel_calls=PARALLEL_CALLS)
    if not test:
        dataset = dataset.repeat()
        dataset = dataset.shuffle(buffer_size=6)
    dataset = dataset.map(lambda records: decode_batch(records, test), num_parallel_calls=PARALLEL_CALLS)
    return dataset.prefetch(tf.data.AUTOTUNE)


embed = tf.Variable(tf.random.stateless_normal((12, 24), (9, 10)) / 5)
project = tf.Variable(tf.random.stateless_normal((WIDTH * 3, 24), (11, 12)) / 20)


@tf.function(jit_compile=True)
def update(images, tokens):
    with tf.GradientTape() as tape:
        columns = tf.reduce_mean(tf.cast(images, tf.float32) / 255, axis=1)
        seen = tf.reshape(columns, (BATCH_SIZE, WIDTH * 3)) @ project
        wanted = tf.gather(embed, tf.cast(tokens, tf.int32))
        scores = tf.einsum("btd,bd->bt", wanted, seen)
        loss = tf.reduce_mean(tf.nn.softplus(-scores) * tf.cast(tokens > 0, tf.float32))
    for weight, gradient in zip((embed, project), tape.gradient(loss, (embed, project)), strict=True):
        weight.assign_sub(0.01 * tf.convert_to_tensor(gradient))
    return loss


def train_step(images, tokens):
    longest = int(tf.reduce_max(tf.math.count_nonzero(tokens, axis=1)))
    tokens = tokens[:, :longest]  # FAULT
    return update(images, tokens)


def train_step_fixed(images, tokens):
    return update(images, tokens)
