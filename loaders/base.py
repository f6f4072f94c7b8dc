"""The contract of a loader: one interface that ends at the batch.

Shapes: B batch, H height, W width, C channels, T codes a record, N bytes of an id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from loaders.check import Rules
from loaders.config import LoaderConfig
from loaders.index import Index
from loaders.order import Plan
from loaders.shards import Shard
from loaders.spec import Schema


class Loader(Protocol):
    """Gives batches of decoded images, the same from every backend.

    An element is a tuple of tensors:

    ======== ====================================
    form     element
    ======== ====================================
    train    image_BHWC, tokens_BT [, image_id_BN with ``with_ids``]
    eval     image_BHWC, tokens_BT, valid_B
    predict  image_BHWC, image_id_BN, valid_B
    ======== ====================================

    image is ``image_dtype`` (the PNG's pixels, from 0 to 255, or to 1 with ``scale``),
    tokens ``target_dtype``, image_id uint8 (zero-padded), valid bool: False for rows
    that only fill up the last batch. Every batch has exactly B rows.
    """

    name: str
    """The backend: 'tfdata' or 'dali'."""
    decode: str
    """How and where PNGs are decoded, in words."""
    source: Source
    """The checked data that it reads."""

    @property
    def element_spec(self) -> Any:
        """The tf.TensorSpec of each part of an element, every dimension known."""

    def dataset(self, start_step: int = 0) -> Any:
        """A tf.data.Dataset of elements: endless for training, else one pass.

        With ``start_step`` it begins with the batch that a fresh one gives after that many.
        Errors: ValueError where the order can't be entered in the middle.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Checked data, the same for every backend: what there is and in which order."""

    schema: Schema
    rules: Rules
    shards: tuple[Shard, ...]
    indexes: tuple[Index, ...]
    """int64 [records, 2] of each shard: offset and size of each frame."""
    plan: Plan

    @property
    def paths(self) -> list[str]:
        return [shard.path for shard in self.shards]


def element_spec(config: LoaderConfig, schema: Schema) -> tuple[Any, ...]:
    """What every backend's element must be, from the config alone."""
    import tensorflow as tf

    batch = config.batch_size
    image = tf.TensorSpec(
        [batch, schema.height, schema.width, schema.channels], tf.as_dtype(config.image_dtype)
    )
    tokens = tf.TensorSpec([batch, schema.max_len], tf.as_dtype(config.target_dtype))
    image_id = tf.TensorSpec([batch, config.id_bytes], tf.uint8)
    valid = tf.TensorSpec([batch], tf.bool)
    parts = {"image": image, "tokens": tokens, "image_id": image_id, "valid": valid}
    return tuple(parts[name] for name in element_names(config))


def element_names(config: LoaderConfig) -> Sequence[str]:
    """The parts of an element, in order."""
    if config.form == "train":
        return ("image", "tokens", "image_id") if config.with_ids else ("image", "tokens")
    return ("image", "tokens", "valid") if config.form == "eval" else ("image", "image_id", "valid")


def batches_in_one_pass(records: int, batch_size: int) -> int:
    """Batches that hold every record once, the last one filled up."""
    return -(-records // batch_size)
