"""The NVIDIA DALI backend: DALI reads, shuffles and decodes, a DALIDataset hands the batch to TensorFlow.

DALI decodes PNGs on the host, on a GPU machine too: its 'mixed' decoder copies the
pixels to the GPU after that. No release of DALI decodes PNG on the GPU.

Shapes: B batch, H height, W width, C channels, T codes a record, N bytes of an id.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from loaders.base import Source, batches_in_one_pass, element_names, element_spec
from loaders.check import check_shards
from loaders.config import AUTO, LoaderConfig
from loaders.cores import usable_cores
from loaders.index import Index, index_path, own_index_path, read_index, write_index
from loaders.order import Span
from loaders.shards import Shard

try:
    import nvidia.dali.plugin.tf as dali_tf
    from nvidia.dali import Pipeline, fn, types
    from nvidia.dali import tfrecord as tfrec
except Exception as error:
    # ImportError, or what TensorFlow says of a plugin that was compiled against another version of it.
    raise ValueError(
        f"--loader dali: DALI can't be imported ({error}). `uv sync` installs it on Linux x86-64 "
        "where g++ is there to compile its TensorFlow plugin; elsewhere use --loader tfdata "
        "(`uv run --no-group dali ...`)"
    ) from error

log = logging.getLogger(__name__)

MISSING = "is missing"


class DaliLoader:
    """A TFRecord reader with its own shuffle window, then DALI's decoder, in one DALI pipeline."""

    name = "dali"

    def __init__(self, config: LoaderConfig, source: Source) -> None:
        self.config = config
        self.source = source
        self.element_spec = element_spec(config, source.schema)
        self.device = _device(config)
        self.decode = (
            f"DALI decoders.image on the host{', copied to the GPU' if self.device == 'gpu' else ' (CPU)'}"
        )
        _check_supported(config, source)
        self._index_files = [
            ensure_index_file(s, i, config) for s, i in zip(source.shards, source.indexes, strict=True)
        ]

    def dataset(self, start_step: int = 0) -> tf.data.Dataset:
        if self.config.form == "train":
            return self._training(start_step)
        return self._one_pass(start_step)

    def _training(self, start_step: int) -> tf.data.Dataset:
        if start_step and self.config.shuffle != "none":
            raise ValueError(
                "--loader dali can't enter a shuffled order at a later step: DALI's shuffle window "
                "has no position; use --shuffle none or --loader tfdata"
            )
        spans = self.source.plan.spans_rotated(start_step * self.config.batch_size)
        dataset = self._dali_dataset(spans, pad_last_batch=False)
        # On a GPU nothing may stand behind a DALIDataset: tf.data's own datasets run on the CPU.
        return dataset.map(self._finish) if self._must_finish else dataset

    def _one_pass(self, start_step: int) -> tf.data.Dataset:
        batch_size, plan = self.config.batch_size, self.source.plan
        start = min(start_step * batch_size, plan.records)
        left = plan.records - start
        if not left:
            return self._one_pass(0).take(0)
        dataset = self._dali_dataset(plan.spans_from(start), pad_last_batch=True)
        dataset = dataset.take(batches_in_one_pass(left, batch_size))
        valid = (
            tf.data.Dataset.range(left)
            .batch(batch_size)
            .map(lambda rows: tf.range(batch_size) < tf.size(rows))
        )
        dataset = tf.data.Dataset.zip(dataset, valid)
        return dataset.map(lambda parts, valid_B: (*self._finish(*parts), valid_B))

    def _dali_dataset(self, spans: Sequence[Span], *, pad_last_batch: bool) -> tf.data.Dataset:
        pipeline = self._pipeline(spans, pad_last_batch=pad_last_batch)
        specs = dict(zip(element_names(self.config), self.element_spec, strict=True))
        shapes = [spec.shape for name, spec in specs.items() if name != "valid"]
        dtypes = [spec.dtype for name, spec in specs.items() if name != "valid"]
        dtypes[0] = self._pipeline_dtype
        with tf.device(f"/{self.device}:{self.config.gpu_id if self.device == 'gpu' else 0}"):
            return dali_tf.DALIDataset(
                pipeline=pipeline,
                batch_size=self.config.batch_size,
                output_shapes=tuple(shapes),
                output_dtypes=tuple(dtypes),
                num_threads=pipeline.num_threads,
                device_id=pipeline.device_id,
                prefetch_queue_depth=self.config.prefetch,
            )

    def _pipeline(self, spans: Sequence[Span], *, pad_last_batch: bool) -> Any:
        """reader -> decoder -> cast -> tokens, ids."""
        config, schema = self.config, self.source.schema
        shuffled = config.form == "train" and config.shuffle == "records"
        pipeline = Pipeline(
            batch_size=config.batch_size,
            num_threads=config.dali_threads if config.dali_threads != AUTO else usable_cores(),
            device_id=config.gpu_id if self.device == "gpu" else None,
            prefetch_queue_depth=config.prefetch,
            seed=config.seed,
        )
        with pipeline:
            features: Any = fn.readers.tfrecord(
                name="reader",
                path=[self.source.paths[span.shard] for span in spans],
                index_path=self._index_paths(spans),
                features=self._features(),
                random_shuffle=shuffled,
                initial_fill=config.shuffle_buffer if shuffled else 1,
                seed=config.seed,
                # The spans are this worker's share already, so that the reader sees one shard.
                shard_id=0,
                num_shards=1,
                stick_to_shard=True,
                pad_last_batch=pad_last_batch,
            )
            images = fn.decoders.image(
                features[schema.image_feature],
                device="mixed" if self.device == "gpu" else "cpu",
                output_type=types.GRAY if schema.channels == 1 else types.RGB,
                adjust_orientation=False,
            )
            parts = {"image": self._cast_images(images)}
            if "tokens" in element_names(config):
                tokens = fn.pad(
                    features[schema.target_feature], axes=[0], shape=[schema.max_len], fill_value=0
                )
                parts["tokens"] = fn.cast(tokens, dtype=_DALI_TYPES[config.target_dtype])
            if "image_id" in element_names(config):
                ids = features[schema.id_feature]
                parts["image_id"] = fn.pad(ids, axes=[0], shape=[config.id_bytes], fill_value=0)
            outputs = [parts[name] for name in element_names(config) if name != "valid"]
            if self.device == "gpu":
                outputs = [output.gpu() for output in outputs]
            pipeline.set_outputs(*outputs)
        return pipeline

    def _features(self) -> Any:
        """What to parse: the parts of the element and no more."""
        config, schema = self.config, self.source.schema
        features: dict[str | None, Any] = {schema.image_feature: tfrec.FixedLenFeature([], tfrec.string, "")}
        if "tokens" in element_names(config):
            # A list of any length, padded to zeros: FixedLenFeature gives uninitialised memory
            # behind a short one, which data taken on trust may hold.
            features[schema.target_feature] = tfrec.VarLenFeature(tfrec.int64, 0)
        if "image_id" in element_names(config):
            features[schema.id_feature] = tfrec.FixedLenFeature([], tfrec.string, "")
        return features

    def _cast_images(self, images: Any) -> Any:
        if self.config.scale:
            images = fn.cast(images, dtype=types.FLOAT) / 255.0
        return fn.cast(images, dtype=_DALI_TYPES[self._pipeline_dtype.name])

    @property
    def _must_finish(self) -> bool:
        """Whether a cast is left for TensorFlow: DALI has no bfloat16."""
        return self.config.image_dtype == "bfloat16"

    @property
    def _pipeline_dtype(self) -> tf.DType:
        return tf.float32 if self._must_finish else tf.as_dtype(self.config.image_dtype)

    def _finish(self, images_BHWC: tf.Tensor, *others: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return (tf.cast(images_BHWC, self.config.image_dtype), *others)

    def _index_paths(self, spans: Sequence[Span]) -> list[str]:
        """An index file for each span: the shard's own, or one that lists the span only."""
        paths = []
        for span in spans:
            index = self.source.indexes[span.shard]
            if span.count == len(index):
                paths.append(self._index_files[span.shard])
                continue
            paths.append(_index_of_part(index[span.first : span.first + span.count]))
        return paths


def build(config: LoaderConfig, source: Source) -> DaliLoader:
    return DaliLoader(config, source)


def ensure_index_file(shard: Shard, index: Index, config: LoaderConfig) -> str:
    """The path of the shard's index file, made (again) where it is missing or not this shard's.

    Errors: ValueError where it would have to be written and can't be.
    """
    path = index_path(shard.path, config.index_dir)
    why = _why_not_this_index(path, shard, index)
    if config.index_dir is not None and why not in (None, MISSING):
        # It may be the index of a shard of the same name in another folder, which is in use.
        path = own_index_path(shard.path, config.index_dir)
        why = _why_not_this_index(path, shard, index)
    if why is None:
        return path
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_index(path, index)
    except OSError as error:
        raise ValueError(
            f"{path}: the index {why} and can't be written ({error.strerror}): "
            "name a folder that can be written with --index-dir"
        ) from error
    log.info("%s: the index %s; made anew from the shard (%d records)", path, why, len(index))
    return path


def _index_of_part(index: Index) -> str:
    """An index file that lists part of a shard.

    It must outlive the loader: DALI reads it only when an iterator is made.
    """
    digest = hashlib.sha256(index.tobytes()).hexdigest()[:32]
    path = str(Path(_parts_folder()) / f"{digest}.idx")
    if not os.path.exists(path):
        write_index(path, index)
    return path


@cache
def _parts_folder() -> str:
    folder = tempfile.mkdtemp(prefix="feedline-index-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


_DALI_TYPES = {
    "uint8": types.UINT8,
    "int32": types.INT32,
    "float16": types.FLOAT16,
    "float32": types.FLOAT,
}


def _device(config: LoaderConfig) -> str:
    """Where the DALIDataset is put: where the step runs, as far as DALI and tf.data allow."""
    if config.device == "cpu":
        return "cpu"
    if config.form != "train":
        # Padding is told apart by tf.data, which runs on the CPU; PNGs are decoded there anyway.
        return "cpu"
    if config.image_dtype == "bfloat16":
        log.info("DALI has no bfloat16: its batches are cast on the CPU and copied to the GPU")
        return "cpu"
    log.info("DALI decodes PNGs on the host (it has no GPU decoder for PNG) and copies the pixels to the GPU")
    return "gpu"


def _why_not_this_index(path: str, shard: Shard, index: Index) -> str | None:
    try:
        stored = read_index(path)
        older = os.stat(path).st_mtime_ns < os.stat(shard.path).st_mtime_ns
    except FileNotFoundError:
        return MISSING
    except (OSError, ValueError):
        return "can't be read"
    if not np.array_equal(stored, index):
        return "is not this shard's" + (" (it is older)" if older else "")
    # An older index with the right content (a copied or touched shard) serves as well.
    return None


def _check_supported(config: LoaderConfig, source: Source) -> None:
    """Errors: ValueError for what DALI can't do as tf.data does it."""
    if config.form == "train" and config.shuffle == "batches":
        raise ValueError(
            "--shuffle batches: DALI's reader shuffles records, not batches; "
            "use --loader tfdata, or --shuffle records"
        )
    if source.schema.channels == 4:
        raise ValueError(
            "--channels 4: DALI decodes to 1 or 3 channels; use --loader tfdata, or --channels 3"
        )
    for path in source.paths:
        if not _is_utf8(path):
            raise ValueError(f"{path}: DALI opens files by UTF-8 names only; use --loader tfdata")
    if config.missing == "default" and not config.trust_data:
        _check_nothing_missing(config, source)


def _check_nothing_missing(config: LoaderConfig, source: Source) -> None:
    """DALI has no default for an absent feature: it fails, or gives uninitialised memory."""
    read = {"tokens": source.schema.target_feature, "image_id": source.schema.id_feature}
    needed = tuple(str(read[name]) for name in element_names(config) if name in read)
    try:
        check_shards(source.shards, replace(source.rules, needed=needed))
    except ValueError as error:
        raise ValueError(
            f"--missing default: DALI can't fill in what a record lacks, use --loader tfdata: {error}"
        ) from None


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
