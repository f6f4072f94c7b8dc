"""DALI's index files: what is written, what is read, and how they are replaced."""

from __future__ import annotations

import os
import runpy
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loaders.atomic import write_beside
from loaders.index import index_of, index_path, read_index, write_index
from loaders.records import ShardError
from tests.data import write_shard

PAIRS = st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(16, 2**63 - 1)), max_size=20)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for the examples of a property to write, one after the other."""
    return tmp_path_factory.mktemp("index") / "shard.tfrecord.idx"


@given(pairs=PAIRS)
@example(pairs=[(2**63 - 1, 2**63 - 1)])
def test_what_was_written_is_read_back(path: Path, pairs: list[tuple[int, int]]) -> None:
    write_index(path, pairs)

    index = read_index(path)
    assert index.dtype == np.int64
    assert index.shape == (len(pairs), 2)
    assert index.tolist() == [list(pair) for pair in pairs]
    # The form that DALI's tfrecord2idx writes: a line a record.
    assert path.read_text() == "".join(f"{offset} {size}\n" for offset, size in pairs)


@given(
    garbage=st.one_of(st.binary(max_size=100), st.text("0123456789 \n-+.x²३\t", max_size=60).map(str.encode))
)
def test_garbage_raises_nothing_but_value_errors(path: Path, garbage: bytes) -> None:
    path.write_bytes(garbage)
    try:
        index = read_index(path)
    except ValueError as error:
        assert str(error).startswith(f"{path}: line ")  # noqa: PT017 -- most garbage is an error, not all
    else:
        rows = [line.split() for line in garbage.split(b"\n") if line.strip()]
        assert index.tolist() == [[int(offset), int(size)] for offset, size in rows]
        assert (index[:, 0] >= 0).all()
        assert (index[:, 1] >= 16).all()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"12", "line 2 must be two whole numbers, offset and size: b'12'"),
        (b"0 16 32", "line 2 must be two whole numbers"),
        (b"-1 16", "line 2 must be two whole numbers"),
        (b"0 1_6", "line 2 must be two whole numbers"),
        ("0 ١٦".encode(), "line 2 must be two whole numbers"),
        (b"0 9223372036854775808", "line 2 must be two whole numbers"),
        (b"0 " + b"9" * 5000, "line 2 must be two whole numbers"),
        (b"0 15", "line 2: a frame takes at least 16 bytes, not 15"),
        (b"\x00\xff", "line 2 must be two whole numbers"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: bytes, words: str) -> None:
    path = tmp_path / "a.idx"
    path.write_bytes(b"0 16\n" + line + b"\n")
    with pytest.raises(ValueError, match=r"a.idx: line 2") as caught:
        read_index(path)
    assert words in str(caught.value)


@given(lengths=st.lists(st.integers(0, 300), min_size=1, max_size=12))
def test_the_index_of_a_shard(path: Path, lengths: list[int]) -> None:
    shard = write_shard(path.with_suffix(""), [bytes(length) for length in lengths])

    index = index_of(str(shard))

    offset = 0
    for (found_offset, found_size), length in zip(index.tolist(), lengths, strict=True):
        # 8 bytes length, 4 its checksum, the record, 4 its checksum.
        assert (found_offset, found_size) == (offset, 8 + 4 + length + 4)
        offset += 8 + 4 + length + 4
    assert offset == shard.stat().st_size


def test_no_index_of_what_is_no_shard(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    path.write_text("a text that is longer than a header")
    with pytest.raises(ShardError, match="is no TFRecord file: it is a text file"):
        index_of(str(path))


@pytest.mark.dali
def test_dalis_own_tool_writes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shard = write_shard(tmp_path / "a.tfrecord", [b"first", b"", bytes(1000)])
    write_index(tmp_path / "ours.idx", index_of(str(shard)))

    tool = Path(sys.executable).with_name("tfrecord2idx")
    monkeypatch.setattr(sys, "argv", [str(tool), str(shard), str(tmp_path / "theirs.idx")])
    # Without tensorflow_io it opens plain files.
    monkeypatch.setitem(sys.modules, "tensorflow_io", None)
    runpy.run_path(str(tool))

    assert (tmp_path / "ours.idx").read_text() == (tmp_path / "theirs.idx").read_text()


def test_where_an_index_lies(tmp_path: Path) -> None:
    assert index_path("data/train-0.tfrecord") == "data/train-0.tfrecord.idx"
    assert index_path("data/train-0.tfrecord", "other") == str(Path("other") / "train-0.tfrecord.idx")


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.idx"
    write_index(path, [(0, 16)])

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_index(path, [(0, 32), (32, 16)])
    assert path.read_text() == "0 16\n"
    assert os.listdir(tmp_path) == ["a.idx"], "nothing half-written may stay"


def test_whoever_reads_the_old_file_reads_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.idx"
    write_index(path, [(0, 16)])
    with path.open() as old:
        write_index(path, [(0, 32), (32, 16)])
        assert old.read() == "0 16\n"
    assert path.read_text() == "0 32\n32 16\n"


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, ValueError])
def test_an_interrupted_write_leaves_nothing(tmp_path: Path, interruption: type[BaseException]) -> None:
    path = tmp_path / "a.idx"

    def write_half() -> None:
        with write_beside(path) as file:
            file.write(b"half of it")
            file.flush()
            assert not path.exists(), "the file is not there before it is whole"
            raise interruption

    with pytest.raises(interruption):
        write_half()
    assert os.listdir(tmp_path) == []


def test_a_written_file_is_for_all_readers(tmp_path: Path) -> None:
    """mkstemp's files are for their owner alone; an index lies beside data that others read."""
    before = os.umask(0o022)
    try:
        write_index(tmp_path / "a.idx", [(0, 16)])
        assert os.umask(0o022) == 0o022, "the process's mask is as it was"
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.idx").stat().st_mode) == 0o644
