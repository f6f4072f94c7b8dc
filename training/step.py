"""One training step for every loader, with the XLA switch, and the evaluation step beside it.

Shapes: B batch, H height, W width, C channels, T codes a record, K classes.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from loaders.reference import call_reference
from loaders.spec import Schema
from training.augment import augment_light
from training.config import TrainingConfig
from training.model import make_model


class Trainer:
    """A model, its optimizer, and the two compiled steps.

    ``step(image_BHWC, tokens_BT)`` trains on a batch and gives its loss, a float32 scalar
    that is not fetched from the device. ``evaluate(image_BHWC, tokens_BT, valid_B)``
    gives int32 [4]: tokens right, tokens, lines right, lines.
    """

    def __init__(self, config: TrainingConfig, schema: Schema) -> None:
        self.config = config
        self.schema = schema
        keras.mixed_precision.set_dtype_policy(config.precision)
        self.model = _users_model(config.model, schema) if config.model else make_model(schema)
        optimizer = keras.optimizers.Adam(config.learning_rate)
        if config.precision == "mixed_float16":
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        optimizer.build(self.model.trainable_variables)
        self.optimizer = optimizer
        # auto-clustering is set for the whole process, before TensorFlow is imported.
        jit = True if config.xla == "jit" else None
        self.step = tf.function(self._step, jit_compile=jit, autograph=False)
        self.evaluate = tf.function(self._evaluate, jit_compile=jit, autograph=False)

    def _step(self, image_BHWC: tf.Tensor, tokens_BT: tf.Tensor) -> tf.Tensor:
        image_BHWC = self._prepare(image_BHWC)
        if self.config.augment == "light":
            seed = tf.stack([self.config.seed, tf.cast(self.optimizer.iterations, tf.int32)])
            image_BHWC = augment_light(image_BHWC, seed)
        with tf.GradientTape() as tape:
            logits_BTK = self.model(image_BHWC, training=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(tokens_BT, tf.int32), logits_BTK)
            )
            scaled = self.optimizer.scale_loss(loss)
        variables = self.model.trainable_variables
        gradients = tape.gradient(scaled, [variable.value for variable in variables])
        self.optimizer.apply(gradients, variables)
        return loss

    def _evaluate(self, image_BHWC: tf.Tensor, tokens_BT: tf.Tensor, valid_B: tf.Tensor) -> tf.Tensor:
        logits_BTK = self.model(self._prepare(image_BHWC), training=False)
        tokens_BT = tf.cast(tokens_BT, tf.int32)
        right_BT = tf.equal(tf.argmax(logits_BTK, axis=-1, output_type=tf.int32), tokens_BT)
        counted_BT = tf.broadcast_to(valid_B[:, None], tf.shape(tokens_BT))
        if self.schema.max_len > 1:
            # 0 is padding behind a text, but an ordinary class where there is only a label.
            counted_BT = tf.logical_and(counted_BT, tokens_BT != 0)
        lines_B = tf.logical_and(tf.reduce_all(right_BT, axis=1), valid_B)
        counts = (tf.logical_and(right_BT, counted_BT), counted_BT, lines_B, valid_B)
        return tf.stack([tf.math.count_nonzero(count, dtype=tf.int32) for count in counts])

    def _prepare(self, image_BHWC: tf.Tensor) -> tf.Tensor:
        """Pixels from 0 to 1 in the policy's compute dtype."""
        compute = keras.config.dtype_policy().compute_dtype
        if self.config.scale:
            return tf.cast(image_BHWC, compute)
        return tf.cast(tf.cast(image_BHWC, tf.float32) / 255.0, compute)


def _users_model(reference: str, schema: Schema) -> Any:
    """The user's own model. Errors: ValueError for one that takes or gives other shapes."""
    model = call_reference(reference, schema, flag="--model")
    wanted = {
        "input_shape": (None, schema.height, schema.width, schema.channels),
        "output_shape": (None, schema.max_len, schema.num_classes),
    }
    for attribute, shape in wanted.items():
        found = getattr(model, attribute, None)
        if found != shape:
            raise ValueError(f"--model {reference}: {attribute} must be {shape}: {found}")
    return model


def fetch(loss: Any) -> float:
    """A scalar as a Python float; waits until the device has computed it."""
    return float(loss.numpy())
