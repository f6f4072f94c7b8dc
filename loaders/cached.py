"""Every record decoded once and kept in memory: what a cache of decoded records would buy.

It wraps another loader, which decodes; from then on a batch is only gathered.

Shapes: B batch, H height, W width, C channels, T codes a record, N bytes of an id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import psutil
import tensorflow as tf

from loaders.base import Loader, Source, batches_in_one_pass, element_names, element_spec
from loaders.config import LoaderConfig

MEMORY_SHARE = 0.5
"""Share of the memory that is free which the decoded records may take; beyond it, it is an error."""


class CachedLoader:
    """The records of ``inner`` in memory, gathered into batches in the planned order.

    ``inner`` gives training elements in file order (``--shuffle none --deterministic``)
    that have the ``parts``.
    """

    name = "cached"

    def __init__(self, config: LoaderConfig, source: Source, inner: Loader, parts: Sequence[str]) -> None:
        self.config = config
        self.source = source
        self.element_spec = element_spec(config, source.schema)
        self.decode = f"decoded once by {inner.name}, then kept in memory"
        if config.form == "train" and config.shuffle == "batches":
            raise ValueError(
                "--shuffle batches: cached records have no batches to shuffle; use --loader tfdata"
            )
        self._check_memory()
        self._parts = self._decode_all(inner, parts)

    def dataset(self, start_step: int = 0) -> tf.data.Dataset:
        config, records = self.config, self.source.plan.records
        if config.form != "train":
            return self._one_pass(start_step)
        if start_step and not config.deterministic:
            raise ValueError(
                "start_step needs --deterministic: without it no order can be entered in the middle"
            )
        start = start_step * config.batch_size
        rows = tf.data.Dataset.range(records)
        if config.shuffle == "records":
            rows = rows.shuffle(config.shuffle_buffer, seed=config.seed).repeat().skip(start)
        else:
            rows = rows.repeat().skip(start % records)
        return self._batches(rows.batch(config.batch_size, drop_remainder=True))

    def _one_pass(self, start_step: int) -> tf.data.Dataset:
        batch_size, records = self.config.batch_size, self.source.plan.records
        batches = tf.data.Dataset.range(start_step, max(start_step, batches_in_one_pass(records, batch_size)))
        # Rows behind the last record repeat it, and are marked.
        rows = batches.map(lambda batch: batch * batch_size + tf.range(batch_size, dtype=tf.int64))
        return self._batches(rows)

    def _batches(self, rows: tf.data.Dataset) -> tf.data.Dataset:
        records = self.source.plan.records

        def gather(rows_B: tf.Tensor) -> tuple[tf.Tensor, ...]:
            rows_B = tf.ensure_shape(rows_B, [self.config.batch_size])
            there_B = tf.minimum(rows_B, records - 1)
            parts = {name: tf.gather(part, there_B) for name, part in self._parts.items()}
            parts["valid"] = rows_B < records
            return tuple(parts[name] for name in element_names(self.config))

        options = tf.data.Options()
        options.deterministic = True
        dataset = rows.map(gather, num_parallel_calls=tf.data.AUTOTUNE)
        return dataset.prefetch(self.config.prefetch).with_options(options)

    def _check_memory(self) -> None:
        image = self.element_spec[0]
        needed = self.source.plan.records * int(np.prod(image.shape[1:])) * image.dtype.size
        allowed = MEMORY_SHARE * psutil.virtual_memory().available
        if needed > allowed:
            raise ValueError(
                f"--loader cached: the {self.source.plan.records} decoded records take {needed / 2**30:.1f} "
                f"GiB, and only {allowed / 2**30:.1f} GiB (half of the free memory) may be used"
            )

    def _decode_all(self, inner: Loader, parts: Sequence[str]) -> dict[str, tf.Tensor]:
        """The parts of all records of one epoch, [records, ...] each."""
        records, batch_size = self.source.plan.records, self.config.batch_size
        arrays: dict[str, Any] = {}
        for number, batch in enumerate(inner.dataset().take(batches_in_one_pass(records, batch_size))):
            first = number * batch_size
            count = min(batch_size, records - first)
            for name, part in zip(parts, batch, strict=True):
                if name not in arrays:
                    arrays[name] = np.empty((records, *part.shape[1:]), part.dtype.as_numpy_dtype)
                arrays[name][first : first + count] = part.numpy()[:count]
        with tf.device("/cpu:0"):
            return {name: tf.constant(array) for name, array in arrays.items()}
