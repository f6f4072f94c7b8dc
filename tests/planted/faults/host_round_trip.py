"""A deep, narrow net with its gradients clipped to a norm."""

import math

import numpy as np
import tensorflow as tf

PROOF = "throughput"
KIND = "host-round-trip"
GAIN = False

LAYERS, UNITS, LIMIT, RATE = 12, 48, 1.0, 0.01


class Net(tf.Module):
    def __init__(self):
        super().__init__()
        start = tf.keras.initializers.GlorotUniform(seed=7)
        self.kernels = [tf.Variable(start([UNITS, UNITS])) for _ in range(LAYERS)]
        self.biases = [tf.Variable(tf.zeros([UNITS])) for _ in range(LAYERS)]

    def __call__(self, x):
        for kernel, bias in zip(self.kernels, self.biases, strict=True):
            x = x + tf.tanh(x @ kernel + bias)
        return tf.reduce_sum(x, axis=-1)


net = Net()


def make_dataset():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4096, UNITS)).astype("float32")
    y = np.sin(x.sum(axis=1)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(4096).repeat(2).batch(16, True).prefetch(2)


def gradients_of(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(net(x) - y))
    return loss, tape.gradient(loss, net.trainable_variables)


def update(gradients, scale):
    for variable, gradient in zip(net.trainable_variables, gradients, strict=True):
        variable.assign_sub(RATE * scale * gradient)


backward = tf.function(gradients_of)
forward_update = tf.function(update)


def train_step(x, y):
    loss, gradients = backward(x, y)
    total = 0.0
    for gradient in gradients:
        total += float(tf.reduce_sum(gradient * gradient).numpy())  # FAULT
    norm = math.sqrt(total)
    forward_update(gradients, tf.constant(LIMIT / max(norm, LIMIT), tf.float32))
    return loss


@tf.function
def train_step_fixed(x, y):
    loss, gradients = gradients_of(x, y)
    norm = tf.linalg.global_norm(gradients)
    update(gradients, LIMIT / tf.maximum(norm, LIMIT))
    return loss
