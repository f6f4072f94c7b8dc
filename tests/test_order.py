"""The plan of records, against lists sliced by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaders.order import Plan, Span

COUNTS = st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(sum)
WORKERS = st.integers(1, 7)


def walk(spans: list[Span]) -> list[tuple[int, int]]:
    """(shard, record) of every record of ``spans``, in order."""
    return [(span.shard, span.first + i) for span in spans for i in range(span.count)]


def all_records(counts: list[int]) -> list[tuple[int, int]]:
    return [(shard, record) for shard, count in enumerate(counts) for record in range(count)]


@given(counts=COUNTS, workers=WORKERS)
def test_the_shares_partition_the_records_in_order(counts: list[int], workers: int) -> None:
    plans = [Plan(counts=tuple(counts), shard_id=i, num_shards=workers) for i in range(workers)]

    shares = [walk(plan.spans()) for plan in plans]

    assert [each for share in shares for each in share] == all_records(counts)
    assert [plan.records for plan in plans] == [len(share) for share in shares]
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(counts=COUNTS, workers=WORKERS)
def test_one_worker_reads_whole_shards(counts: list[int], workers: int) -> None:
    spans = Plan(counts=tuple(counts)).spans()
    assert spans == [Span(shard=i, first=0, count=count) for i, count in enumerate(counts) if count]

    # Neighbours of a worker's share meet in at most one shard: most shards have one reader.
    for i in range(workers):
        shards = [span.shard for span in Plan(counts=tuple(counts), shard_id=i, num_shards=workers).spans()]
        assert shards == sorted(set(shards))


@given(counts=COUNTS, workers=WORKERS, data=st.data())
def test_spans_from_and_rotated_are_the_naive_slices(
    counts: list[int], workers: int, data: st.DataObject
) -> None:
    shard_id = data.draw(st.integers(0, workers - 1))
    plan = Plan(counts=tuple(counts), shard_id=shard_id, num_shards=workers)
    mine = walk(plan.spans())
    position = data.draw(st.integers(0, plan.records))
    assert walk(plan.spans_from(position)) == mine[position:]
    assert all(span.count > 0 for span in plan.spans_from(position))
    if not mine:
        return

    endless = data.draw(st.integers(0, 5 * plan.records))
    begin = endless % plan.records
    rotated = walk(plan.spans_rotated(endless))
    assert rotated == mine[begin:] + mine[:begin]
    # Walked again and again it is the endless walk, entered at that position.
    assert (rotated * 3)[: 2 * len(mine)] == (mine * 10)[endless : endless + 2 * len(mine)]


@given(counts=COUNTS, position=st.integers(0, 1000))
def test_the_epoch_of_a_position(counts: list[int], position: int) -> None:
    plan = Plan(counts=tuple(counts))
    endless = [epoch for epoch in range(1001) for _ in range(plan.records)]
    assert plan.epoch_of(position) == endless[position]


@pytest.mark.parametrize(
    ("shard_id", "spans"),
    [
        (0, [Span(shard=0, first=0, count=3)]),
        (1, [Span(shard=0, first=3, count=2), Span(shard=2, first=0, count=1)]),
        (2, [Span(shard=2, first=1, count=4)]),
    ],
)
def test_an_example_by_hand(shard_id: int, spans: list[Span]) -> None:
    """Ten records in shards of 5, 0 and 5, and three workers: 3, 3 and 4 of them."""
    assert Plan(counts=(5, 0, 5), shard_id=shard_id, num_shards=3).spans() == spans
