"""What a pipeline consists of: the user's calls from source to sink, with what each was told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tools.doctor.sites import Made, Recorder, Site, site_of_function

AUTOTUNE = -1

_NUMBERS = {
    "batch_size": "_batch_size",
    "buffer_size": "_buffer_size",
    "num_parallel_calls": "_num_parallel_calls",
    "num_parallel_reads": "_num_parallel_reads",
    "cycle_length": "_cycle_length",
    "block_length": "_block_length",
    "drop_remainder": "_drop_remainder",
    "count": "_count",
    "filename": "_filename",
    "deterministic": "_deterministic",
    "compression_type": "_compression_type",
    "num_threads": "_num_threads",
    "prefetch_queue_depth": "_prefetch_queue_depth",
}
"""The arguments of a call that the doctor judges, and where TensorFlow keeps each."""

_BATCHES = ("batch", "padded_batch", "ragged_batch", "dense_to_ragged_batch")


@dataclass(kw_only=True, slots=True)
class Call:
    """One call of the user's, and the dataset that it gave."""

    dataset: Any
    """The tf.data.Dataset behind the call."""
    call: str
    site: Site
    inputs: list[Call] = field(default_factory=list)
    """The calls whose datasets it read."""
    function: Any = None
    """TensorFlow's wrapper of the function that it was given, or None."""
    arguments: dict[str, Any] = field(default_factory=dict)
    records: float | None = 1.0
    """Records that one of its elements stands for: a batch of 64 for 64. None where that can't be told,
    as before an interleave, whose input are files."""

    @property
    def function_site(self) -> Site | None:
        return site_of_function(self.function._func) if self.function is not None else None

    @property
    def parallel(self) -> int | None:
        """``num_parallel_calls``: AUTOTUNE is -1, None was not given."""
        value = self.arguments.get("num_parallel_calls")
        return None if value is None else int(value)


def build(make_dataset: Callable[[], Any]) -> tuple[Any, list[Call]]:
    """The user's dataset, and its calls in the order in which data flows, the last being the dataset's own.

    Branches (zip, concatenate, sample_from_datasets) come one after another before the call that joins them.
    Errors: ValueError when ``make_dataset`` returns something else than a dataset; whatever it raises.
    """
    with Recorder() as recorder:
        dataset = make_dataset()
    return dataset, calls_of(dataset, recorder)


def calls_of(dataset: Any, recorder: Recorder) -> list[Call]:
    """The calls behind ``dataset``, sources first. Errors: ValueError for something else."""
    from tensorflow.python.data.ops import dataset_ops

    if not isinstance(dataset, dataset_ops.DatasetV2):
        raise ValueError(f"the pipeline must be a tf.data.Dataset: a {type(dataset).__name__} was returned")
    found: dict[int, Call] = {}
    order: list[Call] = []
    _visit(dataset, recorder, found, order)
    _count_records(order)
    return order


def is_source(call: Call) -> bool:
    return not call.inputs


def _visit(dataset: Any, recorder: Recorder, found: dict[int, Call], order: list[Call]) -> Call:
    if id(dataset) in found:
        return found[id(dataset)]
    made = recorder.made.get(id(dataset))
    inner = list(_inputs(dataset))
    # What one call of the user's made of another (TFRecordDataset is a flat_map over names) is one call.
    parts = [dataset]
    frontier = inner
    while (
        frontier
        and made is not None
        and all(_same_call(made, recorder.made.get(id(each))) for each in frontier)
    ):
        parts += frontier
        frontier = [each for part in frontier for each in _inputs(part)]
    call = Call(
        dataset=dataset,
        call=made.call if made else _name_of(dataset),
        site=made.site if made else Site(file="", line=0),
        function=next(
            (part._map_func for part in parts if hasattr(part, "_map_func") and _is_users(part)), None
        )
        or getattr(dataset, "_predicate", None),
    )
    found[id(dataset)] = call
    for part in reversed(parts):
        call.arguments |= _arguments(part)
    if made is not None and made.deterministic is not None:
        call.arguments["deterministic"] = "true" if made.deterministic else "false"
    call.inputs = [_visit(each, recorder, found, order) for each in frontier]
    order.append(call)
    return call


def _same_call(made: Made, other: Made | None) -> bool:
    return other is not None and other.entry is made.entry


def _inputs(dataset: Any) -> Sequence[Any]:
    """Its input datasets, without what only carries options."""
    inputs = []
    for each in dataset._inputs():
        # A V1 dataset, and what a reader is made of, wrap the dataset that does the work.
        inputs.append(getattr(each, "_dataset", each))
    if not inputs and hasattr(dataset, "_impl"):
        return _inputs(dataset._impl)
    return inputs


def _is_users(part: Any) -> bool:
    return site_of_function(part._map_func._func) is not None


def _name_of(dataset: Any) -> str:
    return type(dataset).__name__.strip("_").removesuffix("Dataset").removesuffix("V2") or "Dataset"


def _arguments(dataset: Any) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, attribute in _NUMBERS.items():
        value = getattr(dataset, attribute, None)
        if value is not None and (value := _as_plain(value)) is not None:
            told[name] = value
    return told


def _as_plain(value: Any) -> Any:
    """A Python value of a tensor that holds one; None where it is only known in a graph."""
    if isinstance(value, bool | int | str):
        return value
    try:
        import tensorflow as tf

        plain = tf.get_static_value(value)
        if plain is None or plain.ndim:
            return None
        plain = plain.item()
        return plain.decode(errors="backslashreplace") if isinstance(plain, bytes) else plain
    except (TypeError, ValueError, AttributeError):
        return None


def _count_records(calls: Sequence[Call]) -> None:
    """From the sink upwards: below a batch of n an element is n records; above an interleave, unknown."""
    for call in calls:
        before = call.inputs[0].records if call.inputs else 1.0
        if call.call in (
            "interleave",
            "flat_map",
            "from_tensors",
            "window",
            "group_by_window",
            "bucket_by_sequence_length",
        ):
            before = 1.0
        size = call.arguments.get("batch_size")
        if call.call in _BATCHES and before is not None and size:
            call.records = before * size
        elif call.call == "unbatch":
            call.records = 1.0
        else:
            call.records = before
