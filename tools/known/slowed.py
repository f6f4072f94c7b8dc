"""The tf.data loader, slowed on purpose: each batch decodes some of its images once more.

FEEDLINE_TEST_SLOWER is that share: 0.05 decodes 5 of 100 images again. 0 is a copy of the loader.
"""

from __future__ import annotations

import os

import tensorflow as tf

from loaders.base import Source
from loaders.config import LoaderConfig
from loaders.factory import open_source
from loaders.tfdata import TfdataLoader


class SlowedLoader(TfdataLoader):
    name = "slowed"

    def __init__(self, config: LoaderConfig, source: Source) -> None:
        super().__init__(config, source)
        self._again = round(float(os.environ.get("FEEDLINE_TEST_SLOWER", "0")) * config.batch_size)

    def _decode(self, records_B: tf.Tensor, valid_B: tf.Tensor | None = None) -> tuple[tf.Tensor, ...]:
        if not self._again:
            return super()._decode(records_B, valid_B)
        schema = self.source.schema
        feature = {schema.image_feature: tf.io.FixedLenFeature([], tf.string)}
        again = tf.map_fn(
            self._decode_png,
            tf.io.parse_example(records_B[: self._again], feature)[schema.image_feature],
            parallel_iterations=self.config.parallel_iterations,
            fn_output_signature=tf.TensorSpec([schema.height, schema.width, schema.channels], tf.uint8),
        )
        with tf.control_dependencies([again]):
            return super()._decode(tf.identity(records_B), valid_B)


def make_loader(config: LoaderConfig) -> SlowedLoader:
    return SlowedLoader(config, open_source(config))
