"""How fast a dataset gives its elements, drained in C++ for a limited time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

_SWITCHES = (
    "apply_default_optimizations",
    "filter_fusion",
    "filter_parallelization",
    "inject_prefetch",
    "map_and_batch_fusion",
    "map_and_filter_fusion",
    "map_fusion",
    "map_parallelization",
    "noop_elimination",
    "parallel_batch",
    "seq_interleave_prefetch",
    "shuffle_and_repeat_fusion",
)
_CHUNK_S = 0.01
"""Elements are asked for in chunks of about this time: Python's own part, 0.1 to 0.3 ms a call, is small
in it."""
_LONGEST_CHUNK = 4096
_WARM_UP_SHARE = 0.25
"""Share of a pass that was cut off which is left out: buffers that filled before anything was taken."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Drained:
    """What draining a dataset took."""

    per_s: float
    """Elements a second: of whole passes where it ends, else of a pass without its beginning."""
    cpu_s_per_element: float
    """CPU time of the whole process for each."""
    cores: float
    """CPU time over wall time."""
    first_s: float
    """From asking for an iterator to the first chunk's end: files open, buffers fill."""
    bytes_per_element: float
    """Of its tensors; a string counts its own bytes."""
    elements: int
    """Of the first pass."""
    seconds: float
    ended: bool
    """Whether the dataset ended by itself."""


def without_optimisations(dataset: Any) -> Any:
    """The dataset as it is written: TensorFlow neither fuses nor adds anything."""
    import tensorflow as tf

    options = tf.data.Options()
    for name in _SWITCHES:
        if hasattr(options.experimental_optimization, name):
            setattr(options.experimental_optimization, name, False)
    return dataset.with_options(options)


def drain(dataset: Any, *, seconds: float, chunk: int = 1, fill_s: float = 0.0) -> Drained:
    """Take elements for about ``seconds``, ``chunk`` of them at a time (see ``chunk_of``).

    A dataset that ends soon is repeated until the time is over. The first ``fill_s`` seconds, or the first
    pass, don't count: they fill a cache.
    Errors: ValueError for a dataset without an element; whatever it raises.
    """
    chunks = _chunks(dataset, chunk)
    if fill_s:
        _drain_once(chunks, fill_s)
    first = _drain_once(chunks, seconds)
    if not first.elements:
        if chunk > 1:
            # Fewer elements than a chunk has.
            return drain(dataset, seconds=seconds)
        raise ValueError("it gives no element")
    rate, elements = first, first.elements
    if first.ended and first.seconds < seconds / 2:
        elements = int(dataset.reduce(0, lambda count, *_: count + 1))
        # So short that making iterators is much of it: again and again, by TensorFlow itself.
        rate = _drain_once(_chunks(dataset.repeat(), max(chunk, chunk_of(first.per_s))), seconds)
    return Drained(
        per_s=rate.per_s,
        cpu_s_per_element=rate.cpu_s / rate.elements,
        cores=rate.cpu_s / rate.seconds,
        first_s=first.first_s,
        bytes_per_element=first.bytes_per_element,
        elements=elements,
        seconds=rate.seconds,
        ended=first.ended,
    )


def _chunks(dataset: Any, chunk: int) -> Any:
    """(number, element) of every ``chunk``-th element, the others dropped in C++."""
    # The numbers in front keep batch, repeat and readers from skipping what they should make.
    numbered = dataset.enumerate()
    return numbered.shard(chunk, chunk - 1) if chunk > 1 else numbered


def chunk_of(per_s: float) -> int:
    """Elements of which each chunk consists, at so many elements a second."""
    return max(1, min(_LONGEST_CHUNK, round(per_s * _CHUNK_S)))


def probe(dataset: Any, seconds: float = 0.2) -> float:
    """Elements a second, roughly: of the first few."""
    once = _drain_once(dataset.enumerate(), seconds)
    return once.elements / once.seconds if once.elements else 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pass:
    elements: int
    seconds: float
    cpu_s: float
    first_s: float
    bytes_per_element: float
    ended: bool

    @property
    def per_s(self) -> float:
        return self.elements / self.seconds


def _drain_once(chunks: Any, seconds: float) -> _Pass:
    """One pass over ``(number, element)``, until it ends or ``seconds`` are over."""
    moments: list[tuple[int, float, float]] = [(0, time.perf_counter(), time.process_time())]
    began = moments[0][1]
    size, ended = 0.0, True
    for number, element in chunks:
        moments.append((int(number) + 1, time.perf_counter(), time.process_time()))
        if len(moments) == 2:
            size = size_of(element)
        if moments[-1][1] - began > seconds and len(moments) > 2:
            ended = False
            break
    first_s = moments[min(1, len(moments) - 1)][1] - began
    if not ended:
        # Cut off: what lies ready at the beginning is no rate.
        warm = began + max(first_s, _WARM_UP_SHARE * seconds)
        moments = (
            [moment for moment in moments if moment[1] >= warm] if moments[-2][1] > warm else moments[-2:]
        )
    (from_count, from_at, from_cpu), (to_count, to_at, to_cpu) = moments[0], moments[-1]
    return _Pass(
        elements=to_count - from_count,
        seconds=max(to_at - from_at, 1e-9),
        cpu_s=to_cpu - from_cpu,
        first_s=first_s,
        bytes_per_element=size,
        ended=ended,
    )


def size_of(element: Any) -> float:
    """Bytes of an element's tensors; a string counts its own bytes."""
    import tensorflow as tf

    total = 0.0
    for part in tf.nest.flatten(element, expand_composites=True):
        if not hasattr(part, "dtype") or part.dtype in (tf.variant, tf.resource):
            continue
        if part.dtype == tf.string:
            total += float(tf.reduce_sum(tf.cast(tf.strings.length(part), tf.int64)))
        else:
            total += float(tf.size(part)) * part.dtype.size
    return total
