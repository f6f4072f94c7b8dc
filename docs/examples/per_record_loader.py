"""A loader of your own: decodes each record by itself, then batches. Compare it with

uv run tools/compare.py --loader tfdata docs/examples/per_record_loader.py:make_loader

It keeps the contract of loaders/base.py: a name, how it decodes, the data it reads, the types and
shapes of its batches, and a dataset. feedline checks that, and that its batches equal the others'.
"""

import tensorflow as tf

from loaders.base import Source, element_names, element_spec
from loaders.config import LoaderConfig
from loaders.factory import open_source


class PerRecordLoader:
    name = "per record"
    decode = "tf.io.decode_png in a map over records, on the CPU"

    def __init__(self, config: LoaderConfig, source: Source) -> None:
        self.config = config
        self.source = source
        self.element_spec = element_spec(config, source.schema)

    def dataset(self, start_step: int = 0) -> tf.data.Dataset:
        config = self.config
        dataset = tf.data.TFRecordDataset(self.source.paths)
        if config.shuffle == "records":
            dataset = dataset.shuffle(config.shuffle_buffer, seed=config.seed)
        dataset = dataset.repeat().skip(start_step * config.batch_size)
        dataset = dataset.map(self.decode_record, num_parallel_calls=tf.data.AUTOTUNE)
        dataset = dataset.batch(config.batch_size, drop_remainder=True)
        return dataset.prefetch(config.prefetch)

    def decode_record(self, record: tf.Tensor) -> tuple[tf.Tensor, ...]:
        schema = self.source.schema
        features = {
            schema.image_feature: tf.io.FixedLenFeature([], tf.string),
            schema.target_feature: tf.io.FixedLenFeature([schema.max_len], tf.int64),
        }
        if schema.id_feature is not None:
            features[schema.id_feature] = tf.io.FixedLenFeature([], tf.string)
        values = tf.io.parse_single_example(record, features)
        image = tf.io.decode_png(values[schema.image_feature], channels=schema.channels)
        parts = {
            "image": tf.ensure_shape(image, [schema.height, schema.width, schema.channels]),
            "tokens": tf.cast(values[schema.target_feature], self.config.target_dtype),
        }
        if schema.id_feature is not None:
            image_id = values[schema.id_feature]
            parts["image_id"] = tf.io.decode_raw(image_id, tf.uint8, fixed_length=self.config.id_bytes)
        return tuple(parts[name] for name in element_names(self.config))


def make_loader(config: LoaderConfig) -> PerRecordLoader:
    # What this loader leaves out, it refuses: nothing asked for may be ignored in silence.
    if config.form != "train" or config.image_dtype != "uint8" or config.num_shards > 1:
        raise ValueError("the per-record example gives uint8 training batches of all records only")
    return PerRecordLoader(config, open_source(config))
