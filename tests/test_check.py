"""What a record must be: every rule with its words, the PNG rules against libpng, and what is remembered."""

from __future__ import annotations

import logging
import os
import shutil
import tracemalloc
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import platformdirs
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import loaders.check
from loaders.check import Rules, check_record, check_shards, find_bad_record
from loaders.index import index_of
from loaders.png import check_png, read_header
from loaders.shards import Shard, find_shards
from loaders.spec import Schema
from tests.data import (
    HEIGHT,
    MAX_LEN,
    NUM_CLASSES,
    SCHEMA,
    WIDTH,
    Value,
    codes,
    feature,
    open_loader,
    pixels,
    record,
    write_shard,
)
from tests.pngs import chunk, chunks_of, encode_png, join_chunks, mutate_png, odd_pngs

RULES = Rules(schema=SCHEMA, target_dtype="uint8", id_bytes=64, needed=("some_text", "image_id"))
PNG = encode_png(pixels(0))
WITHOUT_IDAT = join_chunks(each for each in chunks_of(PNG) if each[0] != b"IDAT")
ABSENT: Any = "absent"
ROWS = HEIGHT * (1 + 3 * WIDTH)
"""Bytes of the inflated rows, each with its filter's number."""
RAW_PIXELS = "(as many bytes as raw pixels: they must be PNG files)"
NOT_INFLATED = "the image is damaged: its pixels can't be inflated (Error -3 while decompressing data: "


def rewritten(kind: bytes, body: bytes) -> bytes:
    """PNG with another body in the one chunk of that kind, its checksum right."""
    return join_chunks((each, body if each == kind else old) for each, old in chunks_of(PNG))


def with_chunk(place: int, kind: bytes, body: bytes) -> bytes:
    chunks = chunks_of(encode_png(pixels(0), idat_bytes=4000))
    return join_chunks([*chunks[:place], (kind, body), *chunks[place:]])


def header(**fields: int) -> bytes:
    parts = {"depth": 8, "color": 2, "compression": 0, "filter": 0, "interlace": 0, **fields}
    return WIDTH.to_bytes(4, "big") + HEIGHT.to_bytes(4, "big") + bytes(parts.values())


def damaged(png: bytes, byte: int) -> bytes:
    return png[:byte] + bytes([png[byte] ^ 1]) + png[byte + 1 :]


IMAGE_FLAWS: dict[str, tuple[Value, str]] = {
    "absent": (ABSENT, "is missing; there are 'image_id', 'some_text'"),
    "no value": (None, "must be a bytes_list: it is no value"),
    "numbers": ([1, 2], "must be a bytes_list: it is a int64_list"),
    "floats": ([0.5], "must be a bytes_list: it is a float_list"),
    "two": ([PNG, PNG], "must hold 1 values: 2"),
    "empty": (b"", ": the image is empty (0 bytes)"),
    "text": (b"not a picture", ": the image is no PNG file: it begins with b'not a pi'"),
    "JPEG": (b"\xff\xd8\xff\xe0" + bytes(100), ": the image is no PNG file: it is a JPEG"),
    "GIF": (b"GIF89a" + bytes(100), ": the image is no PNG file: it is a GIF"),
    "BMP": (b"BM" + bytes(100), ": the image is no PNG file: it is a BMP"),
    "WebP": (b"RIFF" + bytes(100), ": the image is no PNG file: it is a WebP or another RIFF file"),
    "TIFF": (b"II*\0" + bytes(100), ": the image is no PNG file: it is a TIFF"),
    "raw pixels": (
        bytes(HEIGHT * WIDTH * 3),
        f": the image is no PNG file: it begins with {bytes(8)!r} {RAW_PIXELS}",
    ),
    "cut header": (PNG[:32], ": the image is cut off: its header takes 33 bytes, 32 are there"),
    "cut pixels": (PNG[:5000], ": the image is cut off: it ends at byte 5000, inside its IDAT chunk"),
    "cut end": (PNG[:-12], f": the image is cut off: it ends at byte {len(PNG) - 12} without an IEND chunk"),
    "no IHDR": (
        PNG[:8] + PNG[33:] + bytes(33),
        f": the image is damaged: the first chunk must be IHDR of 13 bytes, not b'IDAT' of {len(PNG) - 57}",
    ),
    "other size": (
        encode_png(pixels(0, WIDTH, HEIGHT)),
        ": the image must be 32 x 96 pixels (height x width): 96 x 32",
    ),
    "lying header": (
        encode_png(pixels(0, 2, 2), header_size=(60000, 60000)),
        ": the image must be 32 x 96 pixels (height x width): 60000 x 60000",
    ),
    "no width": (
        encode_png(pixels(0, 2, 2), header_size=(32, 0)),
        ": the image is damaged: its header says 32 x 0 pixels (height x width)",
    ),
    "giant": (
        encode_png(pixels(0, 2, 2), header_size=(2**31, 96)),
        ": the image is damaged: its header says 2147483648 x 96 pixels (height x width)",
    ),
    "depth": (
        rewritten(b"IHDR", header(depth=4)),
        ": the image is damaged: colour type 2 with 4 bits is not allowed",
    ),
    "colour type": (
        rewritten(b"IHDR", header(color=5)),
        ": the image is damaged: colour type 5 with 8 bits is not allowed",
    ),
    "methods": (
        rewritten(b"IHDR", header(interlace=2)),
        ": the image is damaged: its header names an unknown compression, filter or interlace method",
    ),
    "wrong IHDR checksum": (
        damaged(PNG, 30),
        ": the image is damaged: the checksum of its IHDR chunk at byte 8 is wrong",
    ),
    "wrong IDAT checksum": (
        damaged(PNG, 3000),
        ": the image is damaged: the checksum of its IDAT chunk at byte 33 is wrong",
    ),
    "no pixels": (
        WITHOUT_IDAT,
        f": the image has too few rows: {ROWS} bytes of pixels are needed, 0 are there",
    ),
    "too few rows": (
        encode_png(pixels(0, 10, WIDTH), header_size=(HEIGHT, WIDTH)),
        f": the image has too few rows: {ROWS} bytes of pixels are needed, 2890 are there",
    ),
    "not compressed": (
        rewritten(b"IDAT", b"these are no compressed bytes"),
        f": {NOT_INFLATED}incorrect header check)",
    ),
    "wrong Adler": (
        rewritten(b"IDAT", zlib.compress(bytes(ROWS))[:-1] + b"?"),
        f": {NOT_INFLATED}incorrect data check)",
    ),
    "stream without an end": (
        rewritten(b"IDAT", zlib.compress(bytes(ROWS))[:-4]),
        ": the image is cut off: its compressed pixels have no end",
    ),
    "too many rows without an end": (
        rewritten(b"IDAT", zlib.compress(bytes(2 * ROWS))[:-4]),
        ": the image is cut off: its compressed pixels have no end",
    ),
    "filter 5": (
        encode_png(pixels(0), rewrite=lambda rows: b"\5" + rows[1:]),
        ": the image is damaged: a row names filter 5; there are 0 to 4",
    ),
    "filter in the last row": (
        encode_png(pixels(0), rewrite=lambda rows: rows[: -1 - 3 * WIDTH] + b"\xff" + rows[-3 * WIDTH :]),
        ": the image is damaged: a row names filter 255; there are 0 to 4",
    ),
    "no palette": (
        rewritten(b"IHDR", header(color=3)),
        ": the image is damaged: it has palette colours and no palette (PLTE) before its pixels",
    ),
    "odd palette": (
        encode_png(pixels(0, samples=1), color_type=3, palette=bytes(7)),
        ": the image is damaged: a palette holds 1 to 256 colours of 3 bytes: 7 bytes",
    ),
    "long palette": (
        encode_png(pixels(0, samples=1), color_type=3, palette=bytes(771)),
        ": the image is damaged: a palette holds 1 to 256 colours of 3 bytes: 771 bytes",
    ),
    "empty palette": (
        with_chunk(1, b"PLTE", b""),
        ": the image is damaged: a palette holds 1 to 256 colours of 3 bytes: 0 bytes",
    ),
    "two headers": (
        with_chunk(1, b"IHDR", header()),
        ": the image is damaged: it has more than one IHDR chunk",
    ),
    "two palettes": (
        encode_png(
            pixels(0, samples=1), color_type=3, palette=bytes(3), before_pixels=chunk(b"PLTE", b"abc")
        ),
        ": the image is damaged: it has more than one PLTE chunk",
    ),
    "divided pixels": (
        with_chunk(2, b"tEXt", b"key\0value"),
        ": the image is damaged: another chunk stands between its IDAT chunks",
    ),
    "unknown necessary chunk": (
        with_chunk(1, b"CgBI", bytes(4)),
        ": the image needs the chunk CgBI, which is no part of the standard",
    ),
    "impossible name": (
        with_chunk(1, b"a1B2", b""),
        ": the image is damaged: no chunk can have the name b'a1B2' (at byte 33)",
    ),
    "reserved name": (
        with_chunk(1, b"idat", b""),
        ": the image is damaged: no chunk can have the name b'idat' (at byte 33)",
    ),
    "background": (
        with_chunk(1, b"bKGD", bytes(2)),
        ": the image is damaged: its background chunk (bKGD) has 2 bytes",
    ),
    "animation": (
        with_chunk(1, b"acTL", bytes(8)),
        ": the image is damaged: its animation chunk (acTL) does not fit its frames",
    ),
    "frame": (
        with_chunk(1, b"fcTL", bytes(26)),
        ": the image is damaged: its first animation frame (fcTL) is not the whole image",
    ),
}

TARGET_FLAWS: dict[str, tuple[Value, str]] = {
    "absent": (ABSENT, "is missing; there are 'image', 'image_id'"),
    "no value": (None, "must be a int64_list: it is no value"),
    "floats": ([1.0, 2.0, 3.0, 4.0], "must be a int64_list: it is a float_list"),
    "bytes": (b"1234", "must be a int64_list: it is a bytes_list"),
    "empty": ([], "must hold 4 values (--max-len): 0"),
    "short": ([1, 2, 3], "must hold 4 values (--max-len): 3"),
    "long": ([1, 2, 3, 4, 0], "must hold 4 values (--max-len): 5"),
    "below": ([1, 2, 3, -1], ": a code must be from 0 to 10 (--num-classes): -1"),
    "above": ([11, 0, 0, 0], ": a code must be from 0 to 10 (--num-classes): 11"),
    "wraps to 0": ([256, 0, 0, 0], ": a code must be from 0 to 10 (--num-classes): 256"),
    "giant": ([0, 0, 0, 2**63 - 1], f": a code must be from 0 to 10 (--num-classes): {2**63 - 1}"),
    "lowest": ([0, 0, 0, -(2**63)], f": a code must be from 0 to 10 (--num-classes): {-(2**63)}"),
}

ID_FLAWS: dict[str, tuple[Value, str]] = {
    "absent": (ABSENT, "is missing; there are 'image', 'some_text'"),
    "no value": (None, "must be a bytes_list: it is no value"),
    "numbers": ([7], "must be a bytes_list: it is a int64_list"),
    "two": ([b"a", b"b"], "must hold 1 values: 2"),
    "long": (b"x" * 65, ": an id may have 64 bytes (--id-bytes): 65"),
}

FLAWS = [
    pytest.param(name, value, words, id=f"{name}: {flaw}")
    for name, flaws in (("image", IMAGE_FLAWS), ("some_text", TARGET_FLAWS), ("image_id", ID_FLAWS))
    for flaw, (value, words) in flaws.items()
]


def flawed(name: str, value: Value) -> bytes:
    return record(0, without=(name,)) if value is ABSENT else record(0, {name: value})


@pytest.fixture(scope="module")
def cache_of_checks() -> Path:
    """Where the checks' memory lies: in the session's own cache folder, not in the user's."""
    folder = Path(platformdirs.user_cache_dir("feedline")) / "checked"
    assert "feedline-tests-" in str(folder)
    return folder


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch, cache_of_checks: Path) -> list[str]:
    """The shards that the check reads, in order; it remembers nothing from before."""
    shutil.rmtree(cache_of_checks, ignore_errors=True)
    read: list[str] = []
    real = loaders.check.read_records

    def counted(path: str) -> Iterator[Any]:
        read.append(Path(path).name)
        return real(path)

    monkeypatch.setattr(loaders.check, "read_records", counted)
    return read


def shard_of(path: Path, *records: bytes) -> Shard:
    (shard,) = find_shards([str(write_shard(path, records))])
    return shard


def test_a_sound_record() -> None:
    assert check_record(record(0), RULES) is None
    assert check_record(record(0, {"other": [1.0], "more": b"x"}), RULES) is None
    assert check_record(record(0, {"image_id": b"x" * 64, "some_text": [10, 0, 0, 10]}), RULES) is None
    assert check_record(record(0, {"image_id": b""}), RULES) is None


@pytest.mark.parametrize(("name", "value", "words"), FLAWS)
def test_every_flaw_in_its_words(name: str, value: Value, words: str) -> None:
    said = check_record(flawed(name, value), RULES)
    assert said == f"feature {name!r}{words if words.startswith(':') else f' {words}'}"


@pytest.mark.parametrize(("name", "value", "words"), FLAWS)
def test_every_flaw_names_shard_and_record(tmp_path: Path, name: str, value: Value, words: str) -> None:
    sound = record(0)
    shard = shard_of(tmp_path / "train-0", sound, sound, flawed(name, value), sound)
    with pytest.raises(ValueError, match=r"train-0: record 2 at byte \d+: feature") as caught:
        check_shards([shard], RULES)
    assert str(caught.value).startswith(f"{shard.path}: record 2 at byte {2 * (len(sound) + 16)}: ")
    assert str(caught.value).endswith(words)


def test_what_is_no_example() -> None:
    assert check_record(b"\xff", RULES) == "is no tf.train.Example"
    assert check_record(b"", RULES) == "feature 'image' is missing; the record has none"


@pytest.mark.parametrize(
    ("target_dtype", "code", "words"),
    [
        ("uint8", 255, None),
        ("uint8", 256, "a code must be from 0 to 255 (--target-dtype uint8): 256"),
        ("int32", 256, None),
        ("int32", 2**31 - 1, None),
        ("int32", 2**31, "a code must be from 0 to 2147483647 (--target-dtype int32): 2147483648"),
    ],
)
def test_a_code_must_fit_the_target_dtype(target_dtype: str, code: int, words: str | None) -> None:
    rules = replace(RULES, schema=replace(SCHEMA, num_classes=2**40), target_dtype=target_dtype)
    said = check_record(record(0, {"some_text": [code, 0, 0, 0]}), rules)
    assert said == (words and f"feature 'some_text': {words}")


def test_missing_default_lets_target_and_id_be_absent() -> None:
    rules = replace(RULES, needed=())
    assert check_record(record(0, without=("some_text", "image_id")), rules) is None
    # What is there must still be right, and an image must be there.
    assert "must hold 4 values (--max-len): 3" in str(
        check_record(record(0, {"some_text": [1, 2, 3]}), rules)
    )
    assert "must be a bytes_list" in str(check_record(record(0, {"image_id": [1]}), rules))
    assert "'image' is missing" in str(check_record(record(0, without=("image",)), rules))


def test_records_without_ids() -> None:
    rules = replace(RULES, schema=replace(SCHEMA, id_feature=None))
    assert check_record(record(0, without=("image_id",)), rules) is None
    assert check_record(record(0, {"image_id": [5]}), rules) is None


@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    assert isinstance(check_record(data, RULES), str)


VALUES = st.one_of(
    st.none(),
    st.binary(max_size=50),
    st.lists(st.binary(max_size=5), max_size=3),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6),
    st.lists(st.floats(width=32), max_size=3),
)


@given(changes=st.dictionaries(st.sampled_from(["image", "some_text", "image_id", "other", ""]), VALUES))
def test_arbitrary_features_never_raise(changes: dict[str, Value]) -> None:
    said = check_record(record(0, changes), RULES)
    assert said is None or said.startswith("feature ")


@settings(max_examples=300)
@given(seed=st.integers(0, 2**32), changes=st.integers(0, 3))
def test_what_is_accepted_means_the_same_to_tensorflow(seed: int, changes: int) -> None:
    """Damaged or joined records: whatever passes, TensorFlow parses to the same values."""
    random = Random(seed)
    small = Schema(max_len=MAX_LEN, height=2, width=2, num_classes=NUM_CLASSES)
    png = encode_png(pixels(0, 2, 2))
    data = bytearray(record(0, {"image": png}))
    if not changes:
        # Messages that are joined are merged: of a feature that comes twice, the later one wins.
        data += record(1, {"image": png}, without=random.sample(["image", "some_text", "image_id"], 2))
    for _ in range(changes):
        place = random.randrange(len(data))
        end = place + random.randint(0, 4)
        data[place:end] = random.randbytes(random.choice((0, 1, end - place)))
    if check_record(bytes(data), replace(RULES, schema=small)) is not None:
        return
    features = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "some_text": tf.io.FixedLenFeature([MAX_LEN], tf.int64),
        "image_id": tf.io.FixedLenFeature([], tf.string),
    }
    try:
        found = tf.io.parse_single_example(bytes(data), features)
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError):
        # TensorFlow is stricter with fields that no Example has, about once in 30,000 of these
        # records; its message then quotes the record, which may be no text.
        return
    parsed = loaders.check.parse_example(bytes(data))
    assert found["image"].numpy() == parsed["image"][1][0]
    assert found["image_id"].numpy() == parsed["image_id"][1][0]
    assert found["some_text"].numpy().tolist() == list(parsed["some_text"][1])
    assert tf.io.decode_png(found["image"], channels=3).shape == (2, 2, 3)


@pytest.mark.parametrize("name", odd_pngs(9, 13))
def test_every_kind_of_png_is_accepted(name: str) -> None:
    png = odd_pngs(9, 13)[name]
    check_png(png, read_header(png))
    assert tf.io.decode_png(png, channels=3).shape == (9, 13, 3)


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (5, 1), (3, 2), (8, 8), (9, 17)])
@pytest.mark.parametrize("interlaced", [False, True])
def test_every_size_of_png_is_accepted(size: tuple[int, int], interlaced: bool) -> None:
    """Passes of an interlaced image that have no pixels are where sizes go wrong."""
    noise = pixels(1, *size)
    png = encode_png(noise, interlaced=interlaced, filters=(4, 3, 2, 1))
    check_png(png, read_header(png))
    assert (tf.io.decode_png(png, channels=3).numpy() == noise).all()


REFUSED_BUT_DECODABLE = (
    # libpng stops reading at the last row; what is wrong behind it, or in its checksum, is passed over.
    "can't be inflated",
    "its compressed pixels have no end",
    "another chunk stands between its IDAT chunks",
    # Against the standard, and no encoder's doing; libpng passes over it.
    "the first chunk must be IHDR",
    "no chunk can have the name",
    # libpng passes over these, DALI's decoder fails on them or shows an animation's frame.
    "its background chunk (bKGD)",
    "its animation chunk (acTL)",
    "its first animation frame (fcTL)",
)


def refusal(png: bytes, height: int, width: int) -> str | None:
    """Why the check does not take ``png`` for an image of that size."""
    try:
        head = read_header(png)
        if (head.height, head.width) != (height, width):
            return "another size"
        check_png(png, head)
    except ValueError as error:
        return str(error)
    return None


@settings(max_examples=1500)
@given(seed=st.integers(0, 2**32), idat_bytes=st.sampled_from([7, 60, 1000]), interlaced=st.booleans())
def test_what_is_accepted_is_what_libpng_decodes(seed: int, idat_bytes: int, interlaced: bool) -> None:
    """8-bit RGB with the changes that ``mutate_png`` makes."""
    sound = encode_png(
        pixels(seed % 50, 8, 10), idat_bytes=idat_bytes, interlaced=interlaced, filters=(0, 1, 4)
    )
    png = mutate_png(sound, Random(seed))

    said = refusal(png, 8, 10)
    try:
        shape = tuple(tf.io.decode_png(png, channels=3).shape)
    except tf.errors.InvalidArgumentError:
        shape = None

    if said is None:
        assert shape == (8, 10, 3)
    elif shape == (8, 10, 3):
        assert any(words in said for words in REFUSED_BUT_DECODABLE), said


def test_a_bomb_takes_no_memory() -> None:
    """The size is compared before anything is inflated, and no more than the rows is kept."""
    bombs = [
        record(0, {"image": encode_png(np.zeros((4000, 4000, 1), np.uint8), color_type=0, bit_depth=1)}),
        record(0, {"image": rewritten(b"IDAT", zlib.compress(bytes(ROWS + (100 << 20))))}),
    ]
    tracemalloc.start()
    try:
        said = [check_record(bomb, RULES) for bomb in bombs]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert said == ["feature 'image': the image must be 32 x 96 pixels (height x width): 4000 x 4000", None]
    assert peak < 2 << 20


def test_the_first_of_many_bad_records_is_named(tmp_path: Path) -> None:
    """More records than are checked at a time, several of them bad."""
    tiny = encode_png(pixels(0, 1, 1))
    records = [record(0, {"image": tiny})] * 700
    for bad in (300, 301, 650):
        records[bad] = record(0, {"image": tiny, "some_text": [99, 0, 0, 0]})
    rules = replace(RULES, schema=replace(SCHEMA, height=1, width=1))
    first = shard_of(tmp_path / "train-0", record(0, {"image": tiny}))
    second = shard_of(tmp_path / "train-1", *records)
    with pytest.raises(ValueError, match=r"train-1: record 300 at byte \d+: feature 'some_text'"):
        check_shards([first, second], rules)


def test_a_long_check_says_how_far_it_is(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loaders.check, "_SAY_EVERY_S", -1.0)
    shards = [shard_of(tmp_path / f"train-{number}", record(number)) for number in range(2)]
    with caplog.at_level(logging.INFO, "loaders"):
        check_shards(shards, RULES)
    assert caplog.messages == [
        f"checking the records before their first use: {done} of 2 shards" for done in (1, 2)
    ]
    assert len(reads) == 2


def test_the_second_loader_reads_no_record_again(tmp_path: Path, reads: list[str]) -> None:
    for number in range(2):
        write_shard(tmp_path / f"train-{number}", [record(n) for n in range(20)])
    first = open_loader(tmp_path, "tfdata")
    assert reads == ["train-0", "train-1"]

    second = open_loader(tmp_path, "tfdata")
    assert reads == ["train-0", "train-1"], "both were found sound before"
    for index, again in zip(first.source.indexes, second.source.indexes, strict=True):
        assert np.array_equal(index, again)
        assert again.dtype == np.int64
    assert [index.tolist() for index in second.source.indexes] == [
        index_of(path).tolist() for path in second.source.paths
    ]


def test_what_was_found_bad_is_not_remembered(tmp_path: Path, reads: list[str]) -> None:
    shard = shard_of(tmp_path / "train-0", record(0, {"some_text": [99, 0, 0, 0]}))
    for _ in range(2):
        with pytest.raises(ValueError, match="a code must be from 0 to 10"):
            check_shards([shard], RULES)
    assert len(reads) == 2


def test_a_changed_file_is_checked_again(tmp_path: Path, reads: list[str]) -> None:
    """Even one of the same size, with the time set back."""
    path = tmp_path / "train-0"
    shard = shard_of(path, record(0))
    check_shards([shard], RULES)
    before = path.stat()

    bad = record(0, {"some_text": [11, *codes(0)[1:]]})
    assert len(bad) == len(record(0))
    write_shard(path, [bad])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)

    with pytest.raises(ValueError, match=r"record 0 at byte 0: feature 'some_text': a code must be"):
        check_shards([shard], RULES)
    assert len(reads) == 2


@pytest.mark.parametrize(
    "rules",
    [
        replace(RULES, target_dtype="int32"),
        replace(RULES, id_bytes=63),
        replace(RULES, needed=()),
        replace(RULES, schema=replace(SCHEMA, num_classes=12)),
        replace(RULES, schema=replace(SCHEMA, id_feature=None)),
    ],
)
def test_other_rules_are_checked_anew(tmp_path: Path, reads: list[str], rules: Rules) -> None:
    shard = shard_of(tmp_path / "train-0", record(0))
    check_shards([shard], RULES)
    check_shards([shard], rules)
    assert len(reads) == 2


def the_memory(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_damaged_memory_is_ignored(tmp_path: Path, reads: list[str], cache_of_checks: Path) -> None:
    shard = shard_of(tmp_path / "train-0", record(0), record(1))
    (index,) = check_shards([shard], RULES)
    memory = the_memory(cache_of_checks)
    sound = memory.read_bytes()
    (_, size), second = index.tolist()
    assert sound == np.array([[0, size], second], "<i8").tobytes()

    def numbers(*pairs: list[int]) -> bytes:
        return np.array(pairs, "<i8").tobytes()

    wrong = {
        "empty": b"",
        "text": b"no index",
        "cut in a number": sound[:-3],
        "cut in a pair": sound[:-8],
        "a record less": sound[:-16],
        "a record more": sound + numbers([2 * size, 16]),
        "swapped": numbers(second, [0, size]),
        "a gap": numbers([0, size - 1], [size, size + 1]),
        "below 0": numbers([0, -size], [-size, 3 * size]),
        "an impossible size": numbers([0, 15], [15, 2 * size - 15]),
        "one for all": numbers([0, 2 * size]) + b"?",
        "giant": numbers([0, 2**63 - 1], [2**63 - 1, 2**63 - 1]),
    }
    for flaw, content in wrong.items():
        memory.write_bytes(content)
        reads.clear()
        (again,) = check_shards([shard], RULES)
        assert reads == ["train-0"], flaw
        assert np.array_equal(again, index), flaw
        assert memory.read_bytes() == sound, f"{flaw}: mended"


def test_any_damaged_byte_of_the_memory_is_harmless(
    tmp_path: Path, reads: list[str], cache_of_checks: Path
) -> None:
    shard = shard_of(tmp_path / "train-0", record(0), record(1), record(2))
    (index,) = check_shards([shard], RULES)
    memory = the_memory(cache_of_checks)
    sound = memory.read_bytes()
    random = Random(0)
    for byte in range(len(sound)):
        changed = bytearray(sound)
        changed[byte] ^= random.randint(1, 255)
        memory.write_bytes(bytes(changed))
        (again,) = check_shards([shard], RULES)
        assert np.array_equal(again, index), byte


def test_without_a_cache_folder_the_check_still_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    shard = shard_of(tmp_path / "train-0", record(0))
    for _ in range(2):
        assert [index.tolist() for index in check_shards([shard], RULES)] == [[[0, shard.size]]]


def test_trusted_data_is_not_checked(tmp_path: Path, reads: list[str]) -> None:
    write_shard(tmp_path / "train-0", [record(n, {"some_text": [99, 0, 0, 0]}) for n in range(20)])
    loader = open_loader(tmp_path, "tfdata", trust_data=True)
    assert reads == []
    assert loader.source.plan.records == 20
    with pytest.raises(tf.errors.InvalidArgumentError, match="a code is above 10"):
        next(iter(loader.dataset()))


def test_the_record_that_a_decoder_refuses_is_found(tmp_path: Path) -> None:
    shards = [shard_of(tmp_path / f"train-{n}", record(2 * n), record(2 * n + 1)) for n in range(2)]
    assert find_bad_record(shards, RULES, tf.io.decode_png) is None

    third = encode_png(pixels(3))

    def refuse(png: bytes) -> None:
        if png == third:
            raise RuntimeError("no, not this one\nand a second line")

    at = len(record(2)) + 16
    assert find_bad_record(shards, RULES, refuse) == (
        f"{shards[1].path}: record 1 at byte {at}: feature 'image': "
        "the PNG can't be decoded: no, not this one"
    )

    def refuse_silently(png: bytes) -> None:
        raise RuntimeError

    assert str(find_bad_record(shards, RULES, refuse_silently)).endswith("can't be decoded: RuntimeError")


def test_a_broken_rule_is_found_before_the_decoder_is_asked(tmp_path: Path) -> None:
    shard = shard_of(tmp_path / "train-0", record(0), record(1, without=("image",)))

    def decode(png: bytes) -> None:
        assert png

    assert "record 1 at byte" in str(find_bad_record([shard], RULES, decode))
    assert "feature 'image' is missing" in str(find_bad_record([shard], RULES, decode))


def test_features_that_are_encoded_here() -> None:
    """The flaws above are what they are called."""
    assert feature(None) == b""
    assert feature([]) != feature(None)
    assert len({feature(value) for value in ([1], [1.0], b"\1", [b"\1", b"\1"])}) == 4
