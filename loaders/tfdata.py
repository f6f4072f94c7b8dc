"""The tf.data backend: reads, shuffles and batches with tf.data, decodes with tf.map_fn on the CPU.

Shapes: B batch, H height, W width, C channels, T codes a record, N bytes of an id.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorflow as tf

from loaders.base import Source, element_names, element_spec
from loaders.config import AUTO, LoaderConfig
from loaders.order import Span

READ_BUFFER_BYTES = 1 << 20


class TfdataLoader:
    """Interleaved shards, a window shuffle, batches, then one mapped function a batch."""

    name = "tfdata"
    decode = "tf.map_fn(tf.io.decode_png) on the CPU"

    def __init__(self, config: LoaderConfig, source: Source) -> None:
        self.config = config
        self.source = source
        self.element_spec = element_spec(config, source.schema)

    def dataset(self, start_step: int = 0) -> tf.data.Dataset:
        if self.config.form == "train":
            return self._training(start_step)
        return self._one_pass(start_step)

    def _training(self, start_step: int) -> tf.data.Dataset:
        config, plan = self.config, self.source.plan
        if start_step and not config.deterministic:
            raise ValueError(
                "start_step needs --deterministic: without it no order can be entered in the middle"
            )
        start = start_step * config.batch_size
        if config.shuffle == "records":
            dataset = self._read(plan.spans())
            dataset = dataset.shuffle(config.shuffle_buffer, seed=config.seed)
            dataset = dataset.repeat()
            dataset = dataset.skip(start)
            dataset = dataset.batch(config.batch_size, drop_remainder=True)
        elif config.shuffle == "batches":
            # The reference pipeline's order: a remainder is dropped in every epoch, and
            # the shuffle moves whole batches, across epochs.
            dataset = self._read(plan.spans())
            dataset = dataset.batch(config.batch_size, drop_remainder=True)
            dataset = dataset.repeat()
            dataset = dataset.shuffle(config.shuffle_batches, seed=config.seed)
            dataset = dataset.skip(start_step)
        else:
            dataset = self._read(plan.spans_rotated(start))
            dataset = dataset.repeat()
            dataset = dataset.batch(config.batch_size, drop_remainder=True)
        # In order even where reading is not: a batch that overtook another would carry
        # records of the next epoch into this one.
        dataset = dataset.map(self._decode, num_parallel_calls=_calls(config.parallel_calls))
        return dataset.prefetch(config.prefetch)

    def _one_pass(self, start_step: int) -> tf.data.Dataset:
        config, plan = self.config, self.source.plan
        start = min(start_step * config.batch_size, plan.records)
        dataset = self._read(plan.spans_from(start))
        dataset = dataset.batch(config.batch_size)
        dataset = dataset.map(self._fill_up)
        dataset = dataset.map(self._decode, num_parallel_calls=_calls(config.parallel_calls))
        return dataset.prefetch(config.prefetch)

    @property
    def _deterministic(self) -> bool:
        return self.config.deterministic or self.config.form != "train"

    def _read(self, spans: list[Span]) -> tf.data.Dataset:
        """Serialized records of the spans; in their order when deterministic."""
        # fsencode, because a file's name may be no UTF-8.
        paths = np.array([os.fsencode(self.source.paths[span.shard]) for span in spans], dtype=object)
        firsts = np.array([span.first for span in spans], np.int64)
        counts = np.array([span.count for span in spans], np.int64)
        dataset = tf.data.Dataset.from_tensor_slices(
            (tf.constant(paths, tf.string, [len(spans)]), tf.constant(firsts), tf.constant(counts))
        )
        if self._deterministic:
            # One shard after the other: the planned order.
            return dataset.interleave(_read_span, cycle_length=1)
        return dataset.interleave(
            _read_span,
            cycle_length=self.config.cycle_length,
            num_parallel_calls=_calls(min(self.config.parallel_reads, self.config.cycle_length)),
            deterministic=False,
        )

    def _fill_up(self, records_B: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """A full batch from a partial one: its last record repeated, and which rows count."""
        rows_B = tf.range(self.config.batch_size)
        count = tf.shape(records_B)[0]
        return tf.gather(records_B, tf.minimum(rows_B, count - 1)), rows_B < count

    def _decode(self, records_B: tf.Tensor, valid_B: tf.Tensor | None = None) -> tuple[tf.Tensor, ...]:
        """One element from a batch of serialized records."""
        config, schema = self.config, self.source.schema
        features = tf.io.parse_example(records_B, self._features())
        images = tf.map_fn(
            self._decode_png,
            features[schema.image_feature],
            parallel_iterations=config.parallel_iterations,
            fn_output_signature=tf.TensorSpec([schema.height, schema.width, schema.channels], tf.uint8),
        )
        parts = {"image": self._cast_images(images), "valid": valid_B}
        if "tokens" in element_names(config):
            parts["tokens"] = self._cast_tokens(features[schema.target_feature])
        if "image_id" in element_names(config):
            parts["image_id"] = self._pad_ids(features[schema.id_feature])
        return tuple(
            tf.ensure_shape(parts[name], spec.shape)
            for name, spec in zip(element_names(config), self.element_spec, strict=True)
        )

    def _features(self) -> dict[str | None, tf.io.FixedLenFeature]:
        """What to parse: the parts of the element and no more."""
        config, schema = self.config, self.source.schema
        default = config.missing == "default"
        features: dict[str | None, Any] = {schema.image_feature: tf.io.FixedLenFeature([], tf.string)}
        if "tokens" in element_names(config):
            zeros = [0] * schema.max_len if default else None
            features[schema.target_feature] = tf.io.FixedLenFeature([schema.max_len], tf.int64, zeros)
        if "image_id" in element_names(config):
            features[schema.id_feature] = tf.io.FixedLenFeature([], tf.string, "" if default else None)
        return features

    def _decode_png(self, png: tf.Tensor) -> tf.Tensor:
        schema = self.source.schema
        image_HWC = tf.io.decode_png(png, channels=schema.channels)
        return tf.ensure_shape(image_HWC, [schema.height, schema.width, schema.channels])

    def _cast_images(self, images_BHWC: tf.Tensor) -> tf.Tensor:
        if self.config.scale:
            images_BHWC = tf.cast(images_BHWC, tf.float32) / 255.0
        return tf.cast(images_BHWC, self.config.image_dtype)

    def _cast_tokens(self, tokens_BT: tf.Tensor) -> tf.Tensor:
        # Data that was checked can't fail here; data taken on trust must not wrap around.
        top = min(self.source.schema.num_classes - 1, tf.as_dtype(self.config.target_dtype).max)
        checks = [
            tf.debugging.assert_non_negative(tokens_BT, "a code is below 0"),
            tf.debugging.assert_less_equal(tokens_BT, tf.constant(top, tf.int64), f"a code is above {top}"),
        ]
        with tf.control_dependencies(checks):
            return tf.cast(tokens_BT, self.config.target_dtype)

    def _pad_ids(self, ids_B: tf.Tensor) -> tf.Tensor:
        longest = tf.reduce_max(tf.strings.length(ids_B))
        check = tf.debugging.assert_less_equal(
            longest, self.config.id_bytes, "an id is longer than --id-bytes"
        )
        with tf.control_dependencies([check]):
            return tf.io.decode_raw(ids_B, tf.uint8, fixed_length=self.config.id_bytes)


def build(config: LoaderConfig, source: Source) -> TfdataLoader:
    return TfdataLoader(config, source)


def _read_span(path: tf.Tensor, first: tf.Tensor, count: tf.Tensor) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(path, buffer_size=READ_BUFFER_BYTES).skip(first).take(count)


def _calls(count: int) -> Any:
    return tf.data.AUTOTUNE if count == AUTO else count
