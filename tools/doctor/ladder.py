"""Measures a pipeline call by call: each prefix of the chain, made afresh and drained alone.

Runs in the measuring process, which says what it does through ``tell``.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psutil

from tools.doctor import facts
from tools.doctor.chain import Call, build, calls_of
from tools.doctor.dali_ladder import OperatorSites, measure_operators
from tools.doctor.drain import Drained, chunk_of, drain, probe, without_optimisations
from tools.doctor.functions import (
    DECODE_OPS,
    PARSE_OPS,
    PYTHON_OPS,
    WHILE_OPS,
    is_random,
    is_stateful,
    ops_of,
    time_ops,
)
from tools.doctor.own_model import own_models
from tools.doctor.sites import Recorder, Site

Tell = Callable[[str], None]
MakeDataset = Callable[[], Any]

SOURCE_PER_S = 20_000.0
"""Elements a second that a source is assumed to give before it was measured."""
_FIXED = ("from_tensor_slices", "from_tensors", "range", "list_files", "from_tensor")
_LONGEST_FILL_S = 6.0
"""A cache that takes longer to fill is measured while it fills."""
_FILL_MEMORY_SHARE = 0.1
"""Of the machine's memory: a larger cache is not filled."""


def inspect(make_dataset: MakeDataset) -> list[facts.Row]:
    """The calls of a pipeline, without measuring anything. Errors: ValueError; whatever ``make_dataset``
    raises."""
    _, calls = build(make_dataset)
    return [row_of(call, calls) for call in calls]


def row_of(call: Call, calls: list[Call]) -> facts.Row:
    return facts.Row(
        call=call.call,
        place=place(call.site),
        inputs=[next(n for n, each in enumerate(calls) if each is one) for one in call.inputs],
        arguments=call.arguments,
        records=call.records,
        element=element_of(call.dataset),
        cardinality=cardinality_of(call.dataset),
        mapped=mapped_of(call),
        options=options_of(call.dataset) if call.call == "with_options" else {},
    )


def measure_rows(
    make_dataset: MakeDataset, rows: list[facts.Row], *, seconds: float, tell: Tell
) -> Iterator[int]:
    """Measure one prefix after another, each of a fresh dataset; yields the row that is known now.

    Errors: whatever the pipeline raises, with ``tell`` having said of which call.
    """
    records_per_s = SOURCE_PER_S
    fill_s = 0.0
    for number, row in enumerate(rows):
        tell(f"timing .{row.call} at {where(row.place)}")
        whole, calls = build(make_dataset)
        # What is set at the end of the chain holds for all of it.
        dataset = without_optimisations(calls[number].dataset.with_options(whole.options()))
        if row.call == "cache":
            fill_s = fill_time_s(rows, number)
        guess = records_per_s / (row.records or 1.0)
        if row.mapped is not None or row.call in (
            "interleave",
            "flat_map",
            "TFRecordDataset",
            "from_generator",
            "DALIDataset",
        ):
            guess = min(guess, probe(dataset)) if row.call != "interleave" else probe(dataset)
        drained = drain(dataset, seconds=seconds, chunk=chunk_of(guess), fill_s=fill_s)
        row.rate = rate_of(drained)
        records_per_s = drained.per_s * (row.records or 1.0)
        del whole, calls, dataset
        # Datasets and the frames that made them hold each other: caches and buffers would stay.
        gc.collect()
        yield number


def fill_time_s(rows: list[facts.Row], number: int) -> float:
    """Seconds in which the cache of a row can be filled; 0 where it would take too long, or too much
    memory."""
    rate = rows[rows[number].inputs[0]].rate
    if rate is None:
        return 0.0
    elements = rows[rows[number].inputs[0]].cardinality
    if rate.ended:
        elements = rate.elements
    if elements is None:
        return _LONGEST_FILL_S / 2
    if elements < 0 or elements * rate.bytes > _FILL_MEMORY_SHARE * psutil.virtual_memory().total:
        return 0.0
    needed_s = elements / rate.per_s
    return 1.5 * needed_s + 0.5 if needed_s < _LONGEST_FILL_S else 0.0


def measure_real(make_dataset: MakeDataset, *, seconds: float, per_s: float, fill_s: float) -> facts.Rate:
    """The whole pipeline as the user runs it: TensorFlow may optimise as it does by default."""
    dataset, _ = build(make_dataset)
    return rate_of(drain(dataset, seconds=seconds, chunk=chunk_of(per_s), fill_s=fill_s))


def read_own_model(make_dataset: MakeDataset, rows: list[facts.Row], *, seconds: float) -> None:
    """Put what TensorFlow's model knows beside the rows; nothing where there is none."""
    dataset, _ = build(make_dataset)
    for number, own in own_models(dataset, rows, seconds=seconds).items():
        rows[number].own = own


def measure_functions(
    make_dataset: MakeDataset, rows: list[facts.Row], *, tell: Tell, seconds: float
) -> None:
    """Time the ops inside the functions that the rows map, each on a real element of its own input."""
    for row, call in zip(rows, build(make_dataset)[1], strict=True):
        _measure_function(row, call, tell=tell, seconds=seconds)


def _measure_function(row: facts.Row, call: Call, *, tell: Tell, seconds: float) -> None:
    import tensorflow as tf

    if row.mapped is None or not call.inputs or row.call not in ("map", "filter"):
        return
    tell(f"looking into the function of .{row.call} at {where(row.place)}")
    element = next(iter(call.inputs[0].dataset.take(1)), None)
    if element is None or any(
        each.dtype == tf.variant for each in tf.nest.flatten(element, expand_composites=True)
    ):
        return
    arguments = element if isinstance(element, tuple) else (element,)
    costs = [
        facts.OpCost(type=each.type, place=place_or_none(each.site), seconds=each.seconds, share=each.share)
        for each in time_ops(call.function, arguments, seconds=seconds)[:12]
    ]
    row.mapped = replace(row.mapped, costs=costs)


def measure_inner(make_dataset: MakeDataset, rows: list[facts.Row], *, seconds: float, tell: Tell) -> None:
    """The ladder of the pipeline that an interleave or flat_map makes, of its first element."""
    calls = build(make_dataset)[1]
    for row, call in zip(rows, calls, strict=True):
        if call.function is None or row.call not in ("interleave", "flat_map"):
            continue
        element = next(iter(call.inputs[0].dataset.take(1)), None)
        if element is None:
            continue
        arguments = element if isinstance(element, tuple) else (element,)

        def make_inner(call: Call = call, arguments: Any = arguments) -> Any:
            return call.function._func(*arguments)

        try:
            with Recorder() as recorder:
                inner_calls = calls_of(make_inner(), recorder)
        except Exception:
            continue
        row.inner = [row_of(each, inner_calls) for each in inner_calls]
        for _ in measure_rows(make_inner, row.inner, seconds=seconds, tell=tell):
            pass
        for inner_row, inner_call in zip(row.inner, inner_calls, strict=True):
            _measure_function(inner_row, inner_call, tell=tell, seconds=seconds)


def measure_dali(make_dataset: MakeDataset, rows: list[facts.Row], *, seconds: float, tell: Tell) -> None:
    """The ladder of a DALI pipeline's own operators."""
    if not any(row.call == "DALIDataset" for row in rows):
        return
    with OperatorSites() as operators:
        calls = build(make_dataset)[1]
    for row, call in zip(rows, calls, strict=True):
        if row.call == "DALIDataset":
            tell(f"timing the operators of DALIDataset at {where(row.place)}")
            row.inner = measure_operators(
                call.dataset,
                operators.sites,
                threads=int(row.arguments.get("num_threads", 1)),
                seconds=seconds,
            )


def source_files(make_dataset: MakeDataset) -> list[int]:
    """Sizes, in bytes, of the files that the pipeline's sources name."""
    import tensorflow as tf

    sizes: list[int] = []
    for call in build(make_dataset)[1]:
        names: list[bytes] = []
        if not call.inputs and call.dataset.element_spec == tf.TensorSpec([], tf.string):
            if call.call in _FIXED:
                names = [each.numpy() for each in call.dataset.take(100_000)]
            elif hasattr(call.dataset, "_filenames"):
                listed = call.dataset._filenames
                names = (
                    [each.numpy() for each in listed.take(100_000)]
                    if isinstance(listed, tf.data.Dataset)
                    else list(tf.reshape(listed, [-1]).numpy())
                )
        for name in names:
            try:
                sizes.append(os.path.getsize(name))
            except (OSError, ValueError):
                return []
    return sizes


def rate_of(drained: Drained) -> facts.Rate:
    return facts.Rate(
        per_s=drained.per_s,
        cpu_s=drained.cpu_s_per_element,
        cores=drained.cores,
        first_s=drained.first_s,
        bytes=drained.bytes_per_element,
        elements=drained.elements,
        ended=drained.ended,
    )


def cardinality_of(dataset: Any) -> int | None:
    """Elements of one pass; -1 without an end, None where TensorFlow can't tell."""
    count = int(dataset.cardinality())
    return None if count == -2 else count


def record_features(make_dataset: MakeDataset, rows: list[facts.Row]) -> dict[str, int]:
    """Mean bytes of each feature in a few records, where a parsing function is given tf.train.Examples."""
    import tensorflow as tf

    sizes: dict[str, list[int]] = {}
    calls = build(make_dataset)[1]
    for row, call in zip(rows, calls, strict=True):
        if row.mapped is None or not row.mapped.parsed_features or not call.inputs:
            continue
        given = call.inputs[0].dataset
        if not isinstance(given.element_spec, tf.TensorSpec) or given.element_spec.dtype != tf.string:
            continue
        records = [record for each in given.take(2) for record in tf.reshape(each, [-1])[:4].numpy()]
        for record in records:
            for name, size in feature_sizes(record).items():
                sizes.setdefault(name, []).append(size)
        return {name: sum(each) // len(records) for name, each in sizes.items()}
    return {}


def feature_sizes(record: bytes) -> dict[str, int]:
    """Bytes of each feature of a serialised tf.train.Example; nothing for other bytes."""
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    try:
        example = tf.train.Example.FromString(record)
    except DecodeError:
        return {}
    return {name: feature.ByteSize() for name, feature in example.features.feature.items()}


def element_of(dataset: Any) -> list[str]:
    """dtype and shape of each part of an element."""
    import tensorflow as tf

    parts = []
    for spec in tf.nest.flatten(dataset.element_spec, expand_composites=True):
        shape = getattr(spec, "shape", None)
        dtype = getattr(spec, "dtype", None)
        if shape is None or dtype is None:
            parts.append(type(spec).__name__)
        elif shape.rank is None:
            parts.append(f"{dtype.name}[...]")
        else:
            parts.append(f"{dtype.name}[{', '.join('?' if each is None else str(each) for each in shape)}]")
    return parts


def mapped_of(call: Call) -> facts.Mapped | None:
    if call.function is None or not hasattr(call.function, "function"):
        return None
    ops = ops_of(call.function)
    python_function = call.function._func

    def places(chosen: Callable[[Any], bool]) -> list[facts.Place]:
        found = [place(op.site) if op.site else facts.Place(file="", line=0) for op in ops if chosen(op)]
        return list(dict.fromkeys(found))

    features: list[str] = []
    for op in ops:
        if op.type in PARSE_OPS:
            features += _features(op.op)
    return facts.Mapped(
        name=getattr(python_function, "__name__", type(python_function).__name__),
        place=place_or_none(call.function_site),
        stateful=is_stateful(ops),
        random=places(is_random),
        python=places(lambda op: op.type in PYTHON_OPS),
        loops=[
            facts.Loop(
                place=place_or_none(op.site), parallel_iterations=int(op.op.get_attr("parallel_iterations"))
            )
            for op in ops
            if op.type in WHILE_OPS
        ],
        decodes=places(lambda op: op.type in DECODE_OPS),
        ops=len(ops),
        parsed_features=sorted(set(features)),
    )


def _features(op: Any) -> list[str]:
    """Names of the features that a parsing op reads, where they are constants."""
    import tensorflow as tf

    names = []
    for tensor in op.inputs:
        if tensor.dtype == tf.string and "key" in tensor.op.name:
            value = tf.get_static_value(tensor)
            if value is not None:
                names += [each.decode(errors="backslashreplace") for each in value.reshape(-1)]
    if op.type == "ParseSingleExample":
        names += [each.decode() for each in (*op.get_attr("dense_keys"), *op.get_attr("sparse_keys"))]
    return names


def options_of(dataset: Any) -> dict[str, Any]:
    """The options of a dataset that somebody set, by their dotted names."""
    options = dataset.options()
    told: dict[str, Any] = {}
    if options.deterministic is not None:
        told["deterministic"] = bool(options.deterministic)
    for group in ("threading", "experimental_optimization", "autotune"):
        part = getattr(options, group, None)
        for name in getattr(part, "_options", {}):
            value = getattr(part, name, None)
            if value is not None and isinstance(value, bool | int | float | str):
                told[f"{group}.{name}"] = value
    return told


def place(site: Site) -> facts.Place:
    return facts.Place(file=site.file, line=site.line, code=site.code)


def place_or_none(site: Site | None) -> facts.Place | None:
    return place(site) if site is not None else None


def where(place: facts.Place) -> str:
    return f"{os.path.basename(place.file)}:{place.line}" if place.file else "an unknown line"
