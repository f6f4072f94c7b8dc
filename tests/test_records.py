"""The framing of TFRecord files, against TensorFlow's own reader and writer."""

from __future__ import annotations

import re
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from loaders.records import (
    FRAME_BYTES,
    HEADER_BYTES,
    Frame,
    ShardError,
    frame_record,
    masked_crc,
    read_frames,
    read_records,
)
from tests.data import record

Reader = Callable[[str], Iterator[object]]
RECORDS = st.lists(st.binary(max_size=200), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for the examples of a property to write, one after the other."""
    return tmp_path_factory.mktemp("records") / "shard.tfrecord"


def write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


def read_until_error(read: Reader, shard: str) -> tuple[list[Any], str]:
    """What ``read`` gives before its ShardError, and the error's words."""
    found = []
    try:
        for each in read(shard):
            found.append(each)
    except ShardError as error:
        return found, str(error)
    pytest.fail(f"no error after {len(found)} records")


def sound_frames(records: list[bytes]) -> Iterator[Frame]:
    offset = 0
    for number, each in enumerate(records):
        yield Frame(record=number, offset=offset, length=len(each))
        offset += FRAME_BYTES + len(each)


@given(records=RECORDS)
def test_what_was_framed_is_read_back(path: Path, records: list[bytes]) -> None:
    shard = write(path, b"".join(map(frame_record, records)))

    assert list(read_records(shard)) == list(zip(sound_frames(records), records, strict=True))
    assert list(read_frames(shard)) == list(sound_frames(records))


@given(records=RECORDS)
def test_tensorflow_reads_what_was_framed(path: Path, records: list[bytes]) -> None:
    shard = write(path, b"".join(map(frame_record, records)))

    assert [each.numpy() for each in tf.data.TFRecordDataset(shard)] == records


@given(records=RECORDS)
def test_what_tensorflow_wrote_is_read(path: Path, records: list[bytes]) -> None:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for each in records:
            writer.write(each)

    assert path.read_bytes() == b"".join(map(frame_record, records))
    assert [data for _, data in read_records(str(path))] == records


@pytest.mark.parametrize("read", [read_frames, read_records])
def test_a_shard_cut_at_any_byte_is_an_error_unless_a_record_ends_there(path: Path, read: Reader) -> None:
    records = [b"first", b"", b"the third record"]
    whole = b"".join(map(frame_record, records))
    ends = [frame.offset + frame.size for frame in sound_frames(records)]
    for cut in range(1, len(whole)):
        shard = write(path, whole[:cut])
        sound = sum(end <= cut for end in ends)
        if cut in ends:
            # Nothing in the file tells that records are missing: there are fewer of them.
            assert len(list(read(shard))) == sound
            continue
        found, words = read_until_error(read, shard)
        assert len(found) == sound
        assert words.startswith(f"{shard}: ")
        if cut < HEADER_BYTES:
            assert words == f"{shard}: is no TFRecord file ({cut} bytes)"
        else:
            begin = ends[sound - 1] if sound else 0
            assert f"the file ends inside record {sound} at byte {begin}" in words
            assert f"{sound} records before it are sound" in words


@given(records=RECORDS, data=st.data())
def test_truncation_raises_nothing_but_shard_errors(
    path: Path, records: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(map(frame_record, records))
    cut = data.draw(st.integers(0, len(whole)))
    shard = write(path, whole[:cut])
    try:
        count = len(list(read_records(shard)))
    except ShardError:
        count = None
    ends = [0, *(frame.offset + frame.size for frame in sound_frames(records))]
    assert count == (ends.index(cut) if cut in ends else None)


@given(records=RECORDS, data=st.data())
def test_every_flipped_bit_is_found(path: Path, records: list[bytes], data: st.DataObject) -> None:
    damaged = bytearray(b"".join(map(frame_record, records)))
    bit = data.draw(st.integers(0, 8 * len(damaged) - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    shard = write(path, bytes(damaged))
    hit = next(f for f in sound_frames(records) if bit // 8 < f.offset + f.size)

    found, words = read_until_error(read_records, shard)
    assert re.search("checksum|is no TFRecord file|ends inside", words)
    # The records before the damage are given, the damaged one and those behind it are not.
    assert [data for _, data in found] == records[: hit.record]


def test_a_flipped_bit_names_record_and_byte(path: Path) -> None:
    records = [b"first", b"second", b"third"]
    frames = list(sound_frames(records))
    whole = b"".join(map(frame_record, records))

    in_data = bytearray(whole)
    in_data[frames[1].offset + HEADER_BYTES] ^= 1
    shard = write(path, bytes(in_data))
    with pytest.raises(ShardError, match=r"record 1 at byte 21: the checksum of its 6 bytes is wrong"):
        list(read_records(shard))
    assert list(read_frames(shard)) == frames, "headers alone say nothing of a record's bytes"

    in_length = bytearray(whole)
    in_length[frames[2].offset + 3] ^= 1
    shard = write(path, bytes(in_length))
    for read in (read_records, read_frames):
        with pytest.raises(ShardError, match=r"record 2 at byte 43: the checksum of its length is wrong"):
            list(read(shard))


@pytest.mark.parametrize("length", [2**32, 2**40, 2**63 - 16, 2**63, 2**64 - 16, 2**64 - 1])
@pytest.mark.parametrize("read", [read_frames, read_records])
@pytest.mark.parametrize("before", [[], [b"a sound record"]])
def test_an_absurd_length_with_a_valid_checksum(
    path: Path, length: int, read: Reader, before: list[bytes]
) -> None:
    header = struct.pack("<Q", length)
    header += struct.pack("<I", masked_crc(header))
    shard = write(path, b"".join(map(frame_record, before)) + header + bytes(100))

    tracemalloc.start()
    try:
        with pytest.raises(ShardError, match=f"its header says {length} bytes, 100 are there") as caught:
            list(read(shard))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert f"inside record {len(before)} " in str(caught.value)
    # read_records keeps a buffer of 1 MiB.
    assert peak < 4 << 20


@given(garbage=st.binary(min_size=1, max_size=300))
def test_arbitrary_bytes_raise_nothing_but_shard_errors(path: Path, garbage: bytes) -> None:
    shard = write(path, garbage)
    for read in (read_frames, read_records):
        with pytest.raises(ShardError, match="is no TFRecord file"):
            list(read(shard))


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    for read in (read_frames, read_records):
        with pytest.raises(FileNotFoundError, match="nothing"):
            list(read(str(tmp_path / "nothing")))


def test_the_checksum_is_the_one_that_tensorflow_writes(path: Path) -> None:
    """A known value, so that reader and writer can't be wrong in the same way."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(b"123456789")
    # CRC32C of "123456789" is 0xE3069283 (RFC 3720, B.4); rotated by 15 and offset.
    crc = 0xE3069283
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    assert masked_crc(b"123456789") == masked
    assert path.read_bytes()[-4:] == struct.pack("<I", masked)


def test_the_examples_of_these_tests_are_tensorflows() -> None:
    """What tests/data.py encodes is what tf.train.Example reads, each kind of feature."""
    example = tf.train.Example.FromString(
        record(3, {"float": [0.5, -1.0], "two": [b"x", b"yz"], "negative": [-1, 2**62], "empty": []})
    ).features.feature
    assert list(example["some_text"].int64_list.value) == [1, 1, 1, 4]
    assert list(example["image_id"].bytes_list.value) == [b"line-0003"]
    assert list(example["float"].float_list.value) == [0.5, -1.0]
    assert list(example["two"].bytes_list.value) == [b"x", b"yz"]
    assert list(example["negative"].int64_list.value) == [-1, 2**62]
    assert example["empty"].WhichOneof("kind") == "int64_list"
    assert (
        tf.train.Example.FromString(record(3, {"none": None})).features.feature["none"].WhichOneof("kind")
        is None
    )
