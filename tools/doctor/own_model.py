"""What tf.data's own model says of a running pipeline, beside the user's calls."""

from __future__ import annotations

import time
from typing import Any

from tools.doctor import facts

_NODES = {
    "map": ("ParallelMapV2", "Map", "MapAndBatch", "ParallelMap"),
    "batch": ("ParallelBatch", "BatchV2", "Batch", "MapAndBatch"),
    "padded_batch": ("PaddedBatchV2", "PaddedBatch"),
    "shuffle": ("ShuffleV3", "Shuffle", "ShuffleAndRepeatV2", "ShuffleAndRepeat"),
    "repeat": ("ForeverRepeat", "FiniteRepeat", "Repeat", "ShuffleAndRepeat"),
    "prefetch": ("Prefetch",),
    "interleave": ("ParallelInterleaveV4", "ParallelInterleave", "Interleave"),
    "flat_map": ("FlatMap",),
    "cache": ("MemoryCache", "MemoryCacheImpl", "FileCache", "Cache"),
    "filter": ("Filter", "ParallelFilter"),
    "take": ("FiniteTake", "Take"),
    "skip": ("FiniteSkip", "Skip"),
    "zip": ("Zip",),
    "from_tensor_slices": ("TensorSlice",),
    "range": ("Range",),
    "unbatch": ("Unbatch",),
    "concatenate": ("Concatenate",),
    "enumerate": ("Zip",),
    "TFRecordDataset": ("ParallelInterleaveV4", "FlatMap", "TFRecord"),
}
"""The nodes that a call may become: which of them depends on its arguments and on what TensorFlow fuses."""


def own_models(dataset: Any, rows: list[facts.Row], *, seconds: float) -> dict[int, facts.OwnModel]:
    """The model's figures by row, after ``dataset`` was taken for ``seconds``; empty where there is no
    model."""
    import tensorflow as tf

    iterator = iter(dataset)
    until = time.perf_counter() + seconds
    for _ in iterator:
        if time.perf_counter() > until:
            break
    try:
        proto = tf.data.experimental.get_model_proto(iterator)
    except tf.errors.NotFoundError:
        return {}
    spine = _spine(proto)
    found: dict[int, facts.OwnModel] = {}
    at = 0
    for number in _chain(rows):
        wanted = _NODES.get(rows[number].call, (rows[number].call,))
        for later in range(at, len(spine)):
            if spine[later].name in wanted:
                found[number] = _own(spine[later])
                # A fused node stands for both of its calls.
                at = later if "And" in spine[later].name else later + 1
                break
    return found


def _chain(rows: list[facts.Row]) -> list[int]:
    """Rows from the sink to the source, along the first inputs."""
    numbers, at = [], len(rows) - 1
    while True:
        numbers.append(at)
        if not rows[at].inputs:
            return numbers
        at = rows[at].inputs[0]


def _spine(proto: Any) -> list[Any]:
    """Nodes from the sink to the source, along the first inputs."""
    spine, at = [], proto.output if proto.output in proto.nodes else 1
    while at in proto.nodes:
        node = proto.nodes[at]
        spine.append(node)
        if not node.inputs:
            break
        at = node.inputs[0]
    return spine


def _own(node: Any) -> facts.OwnModel:
    parameters = {each.name: each.value for each in node.parameters}
    return facts.OwnModel(
        node=node.name,
        elements=node.num_elements,
        processing_s=node.processing_time / 1e9 / node.num_elements if node.num_elements else 0.0,
        parallelism=parameters.get("parallelism"),
        buffer_size=parameters.get("buffer_size"),
        buffered=node.buffered_elements,
        buffered_mib=node.buffered_bytes / 2**20,
    )
