"""Short epochs under XLA; the last, smaller batch is left out, so that there is one shape."""

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(9)
X = rng.normal(size=(500, 64)).astype("float32")
Y = rng.integers(0, 5, 500)

layers = [tf.Variable(rng.normal(0, 0.1, shape).astype("float32")) for shape in ((64, 128), (128, 5))]


def make_dataset():
    dataset = tf.data.Dataset.from_tensor_slices((X, Y))
    dataset = dataset.shuffle(500)
    dataset = dataset.batch(48, drop_remainder=True)
    dataset = dataset.repeat(20)
    return dataset.prefetch(tf.data.AUTOTUNE)


@tf.function(jit_compile=True)
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = tf.nn.relu(x @ layers[0]) @ layers[1]
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    for layer, gradient in zip(layers, tape.gradient(loss, layers), strict=True):
        layer.assign_sub(0.1 * gradient)
    return loss
