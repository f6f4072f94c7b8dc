"""The tf.data loader, slowed on purpose: some of each batch's records are parsed and decoded once more.

FEEDLINE_TEST_SLOWER is the share of its throughput that it loses: 0.05 makes 6 of 100 records twice. 0 is a
copy of the loader.
"""

from __future__ import annotations

import math
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
        share = float(os.environ.get("FEEDLINE_TEST_SLOWER", "0"))
        # A share of 1 - share remains where 1 / (1 - share) of the work is done. Rounded up: reading and
        # handing over, a tenth of the work, are not done twice.
        self._again = math.ceil(share / (1 - share) * config.batch_size)

    def _decode(self, records_B: tf.Tensor, valid_B: tf.Tensor | None = None) -> tuple[tf.Tensor, ...]:
        if not self._again:
            return super()._decode(records_B, valid_B)
        again = self._decode_some(records_B[: self._again])
        with tf.control_dependencies([again]):
            return super()._decode(tf.identity(records_B), valid_B)

    def _decode_some(self, records_N: tf.Tensor) -> tf.Tensor:
        schema = self.source.schema
        features = tf.io.parse_example(records_N, self._features())
        images = tf.map_fn(
            self._decode_png,
            features[schema.image_feature],
            parallel_iterations=self.config.parallel_iterations,
            fn_output_signature=tf.TensorSpec([schema.height, schema.width, schema.channels], tf.uint8),
        )
        return self._cast_images(images)


def make_loader(config: LoaderConfig) -> SlowedLoader:
    return SlowedLoader(config, open_source(config))
