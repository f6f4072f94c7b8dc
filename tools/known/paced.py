"""A loader and a step whose speeds are known: what a comparison measures can be held against the truth.

FEEDLINE_TEST_RATE is the loader's rate, images a second; FEEDLINE_TEST_STEP_S the seconds of a step.
Batches are handed over on a fixed schedule, so that neither Python nor TensorFlow adds to their time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from loaders.base import element_spec
from loaders.config import LoaderConfig
from loaders.factory import open_source
from loaders.spec import Schema


class PacedLoader:
    """The first batch of the shards again and again, at FEEDLINE_TEST_RATE."""

    name = "paced"
    decode = "none: one batch on a schedule"

    def __init__(self, config: LoaderConfig) -> None:
        self.config = config
        self.source = open_source(config)
        self.element_spec = element_spec(config, self.source.schema)
        self.batch_s = config.batch_size / float(os.environ["FEEDLINE_TEST_RATE"])

    def dataset(self, start_step: int = 0) -> tf.data.Dataset:
        batch = tuple(tf.zeros(spec.shape, spec.dtype) for spec in self.element_spec)
        ready = tf.data.Dataset.from_generator(self._schedule, output_signature=tf.TensorSpec([], tf.int64))
        return ready.map(lambda _: batch).prefetch(self.config.prefetch)

    def _schedule(self) -> Iterator[int]:
        """One number a batch, each when it is due; when nobody took one in time, the schedule waits."""
        due = time.perf_counter()
        number = 0
        while True:
            due = max(due + self.batch_s, time.perf_counter())
            _sleep_until(due)
            yield number
            number += 1


def make_loader(config: LoaderConfig) -> PacedLoader:
    return PacedLoader(config)


class _Paced(keras.layers.Layer):  # type: ignore[misc]
    """Passes its input on after FEEDLINE_TEST_STEP_S; the sleep is not part of the gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.step_s = float(os.environ["FEEDLINE_TEST_STEP_S"])

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        slept = tf.py_function(self._sleep, [], tf.float32)
        slept.set_shape([])
        return inputs + tf.stop_gradient(slept)

    def _sleep(self) -> float:
        _sleep_until(time.perf_counter() + self.step_s)
        return 0.0


def make_model(schema: Schema) -> Any:
    image = keras.Input((schema.height, schema.width, schema.channels))
    x = keras.layers.GlobalAveragePooling2D()(image)
    x = keras.layers.Dense(schema.max_len * schema.num_classes)(_Paced()(x))
    return keras.Model(image, keras.layers.Reshape((schema.max_len, schema.num_classes))(x))


def _sleep_until(moment: float) -> None:
    """Sleeps, and spins for the last half millisecond, which the system's timer is too coarse for."""
    left = moment - time.perf_counter()
    if left > 0.0005:
        time.sleep(left - 0.0005)
    while time.perf_counter() < moment:
        pass
