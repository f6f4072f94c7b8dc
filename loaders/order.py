"""The order of records, planned once for every backend.

A plan lists *spans*: runs of neighbouring records of one shard. Walking the spans from
first to last gives every record of this worker's share exactly once, shards by name and
records in file order; an endless run walks them again and again. Backends carry the
spans out (tf.data by skip and take, DALI by an index that lists just those records).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Records ``first`` to ``first + count - 1`` of shard number ``shard``."""

    shard: int
    first: int
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Which records this worker reads, and in which order.

    Worker i of n reads records i*N//n up to (i+1)*N//n of all N, counted through the
    shards in order: shares differ by at most one record and most shards have one reader.
    """

    counts: tuple[int, ...]
    """Records of each shard."""
    shard_id: int = 0
    num_shards: int = 1

    @property
    def first(self) -> int:
        """The first record of this worker, counted through all shards."""
        return sum(self.counts) * self.shard_id // self.num_shards

    @property
    def records(self) -> int:
        """Records that this worker reads in one epoch."""
        return sum(self.counts) * (self.shard_id + 1) // self.num_shards - self.first

    def spans(self) -> list[Span]:
        """The spans of one epoch."""
        return _cut(self.counts, self.first, self.first + self.records)

    def spans_from(self, position: int) -> list[Span]:
        """What is left of one epoch once ``position`` (0 to ``records``) of its records were read."""
        return _cut(self.counts, self.first + position, self.first + self.records)

    def spans_rotated(self, position: int) -> list[Span]:
        """One epoch's records beginning at ``position``, with those before it at the end.

        Walked again and again it is the endless walk of ``spans``, entered at
        ``position`` (taken modulo ``records``).
        """
        position %= self.records
        return self.spans_from(position) + _cut(self.counts, self.first, self.first + position)

    def epoch_of(self, position: int) -> int:
        """The epoch, from 0, that the ``position``-th record of an endless run belongs to."""
        return position // self.records


def _cut(counts: Sequence[int], begin: int, end: int) -> list[Span]:
    """The spans of records ``begin`` to ``end - 1``, counted through all shards."""
    spans = []
    shard_begin = 0
    for shard, count in enumerate(counts):
        low, high = max(begin, shard_begin), min(end, shard_begin + count)
        if low < high:
            spans.append(Span(shard=shard, first=low - shard_begin, count=high - low))
        shard_begin += count
    return spans
