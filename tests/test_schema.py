"""The schema of shards: the flags, else dataset.json, else a guess from the first records."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loaders.config import LoaderFlags
from loaders.guess import flags_of, read_dataset_file, resolve_schema
from loaders.shards import find_shards
from loaders.spec import Schema
from tests.data import HEIGHT, MAX_LEN, WIDTH, Value, encode_png, pixels, record, write_shard

STORED: dict[str, Any] = {
    "image_feature": "image",
    "target_feature": "some_text",
    "id_feature": "image_id",
    "max_len": MAX_LEN,
    "height": HEIGHT,
    "width": WIDTH,
    "channels": 1,
    "num_classes": 20,
    "alphabet": "0123456789",
}
FOREIGN_NAMES = ("image", "some_text", "image_id")


def schema_of(folder: Path, **flags: Any) -> Schema:
    return resolve_schema(LoaderFlags(**flags), find_shards([str(folder)]))


def shard(folder: Path, *changes: dict[str, Value], without: tuple[str, ...] = ()) -> Path:
    """A folder with a shard of one record for each of ``changes``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_shard(folder / "train-0", [record(n, each, without) for n, each in enumerate(changes or ({},))])
    return folder


def describe(folder: Path, schema: Any = STORED, **changes: Any) -> Path:
    content = {"format": "feedline-dataset", "version": 1, "schema": schema, **changes}
    (folder / "dataset.json").write_text(json.dumps(content))
    return folder


def test_dataset_json_describes_the_shards(tmp_path: Path) -> None:
    assert schema_of(describe(shard(tmp_path))) == Schema(**STORED)


def test_shards_that_a_data_set_lost_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = shard(tmp_path) / "train-0"
    listed = [{"name": path.name, "bytes": path.stat().st_size}, {"name": "train-9", "bytes": 5}]
    describe(tmp_path, shards=[*listed, {"name": "../x"}, {"name": 3}, "x"])
    schema_of(tmp_path)
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [
        f"{tmp_path / 'dataset.json'} lists train-9, and it is not there: its records are missing"
    ]
    caplog.clear()
    describe(tmp_path, shards=[{"name": path.name, "bytes": 7}])
    schema_of(tmp_path)
    assert f"has {path.stat().st_size} bytes, and dataset.json lists it with 7" in caplog.text


def test_a_flag_wins_over_dataset_json(tmp_path: Path) -> None:
    describe(shard(tmp_path))
    assert schema_of(tmp_path, channels=3, height=64) == Schema(**{**STORED, "channels": 3, "height": 64})
    assert schema_of(tmp_path, target_feature="other").target_feature == "other"
    # An alphabet that the classes have no room for is not carried along.
    assert schema_of(tmp_path, num_classes=11).alphabet == "0123456789"
    assert schema_of(tmp_path, num_classes=10).alphabet is None


def test_shards_in_two_folders_of_one_schema(tmp_path: Path) -> None:
    for name in "ab":
        describe(shard(tmp_path / name))
    shards = find_shards([str(tmp_path / "*" / "train-*")])
    assert resolve_schema(LoaderFlags(), shards) == Schema(**STORED)

    describe(tmp_path / "b", {**STORED, "height": 64})
    with pytest.raises(
        ValueError, match=r"the shards' schemas differ: .*a/dataset.json and .*b/dataset.json"
    ):
        resolve_schema(LoaderFlags(), shards)


def test_a_folder_without_dataset_json_makes_the_other_void(tmp_path: Path) -> None:
    describe(shard(tmp_path / "a"))
    shard(tmp_path / "b")
    schema = resolve_schema(LoaderFlags(), find_shards([str(tmp_path / "*" / "train-*")]))
    assert schema.channels == 3, "guessed from the records"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{half", "is no JSON"),
        (b"\xff\xfe", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"[]", "field 'format' must be 'feedline-dataset'"),
        (b'{"format": "other"}', "field 'format' must be 'feedline-dataset'"),
        (b'{"format": "feedline-dataset", "version": 2}', "field 'version' must be 1: 2"),
        (b'{"format": "feedline-dataset"}', "field 'version' must be 1: None"),
    ],
)
def test_a_foreign_or_damaged_dataset_json(
    tmp_path: Path, content: bytes, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = shard(tmp_path) / "dataset.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"dataset.json") as caught:
        read_dataset_file(path)
    assert str(caught.value).startswith(f"{path}: {words}")

    # Somebody else's file of that name is no error: the records speak, and a warning says so.
    with caplog.at_level(logging.WARNING, "loaders"):
        assert schema_of(tmp_path).max_len == MAX_LEN
    assert words in caplog.text
    assert "the schema is guessed from the records" in caplog.text


@given(content=st.one_of(st.binary(max_size=60), st.recursive(
    st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["format", "version", "schema", *STORED]), inner, max_size=4),
).map(lambda value: json.dumps(value).encode())))  # fmt: skip
def test_arbitrary_files_raise_nothing_but_value_errors(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "arbitrary.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"arbitrary.json: (is no JSON|field '(format|version)')"):
        read_dataset_file(path)


WRONG_FIELDS = [
    ("height", 0, "height must be a whole number of at least 1: 0"),
    ("height", "32", "height must be a whole number of at least 1: '32'"),
    ("width", 96.0, "width must be a whole number of at least 1: 96.0"),
    ("max_len", True, "max_len must be a whole number of at least 1: True"),
    ("max_len", None, "max_len must be a whole number of at least 1: None"),
    ("num_classes", -1, "num_classes must be a whole number of at least 1: -1"),
    ("num_classes", 10, "num_classes must be greater than the 10 characters of the alphabet"),
    ("channels", 2, "channels must be 1, 3 or 4: 2"),
    ("channels", True, "channels must be 1, 3 or 4: True"),
    ("channels", 3.0, "channels must be 1, 3 or 4: 3.0"),
    ("channels", [3], r"channels must be 1, 3 or 4: \[3\]"),
    ("image_feature", "", "image_feature must be the name of a feature: ''"),
    ("target_feature", 5, "target_feature must be the name of a feature: 5"),
    ("id_feature", "", "id_feature must be the name of a feature, or none: ''"),
    ("id_feature", "image", "image_feature, target_feature and id_feature must differ"),
    ("alphabet", "aa", "alphabet must be a string of different characters: 'aa'"),
    ("alphabet", ["a", "b"], r"alphabet must be a string of different characters: \['a', 'b'\]"),
]


@pytest.mark.parametrize(("field", "value", "words"), WRONG_FIELDS)
def test_a_wrong_field_of_dataset_json(tmp_path: Path, field: str, value: Any, words: str) -> None:
    describe(shard(tmp_path), {**STORED, field: value})
    with pytest.raises(ValueError, match=rf"dataset.json: field 'schema': {words}"):
        schema_of(tmp_path)


def test_a_schema_that_is_none(tmp_path: Path) -> None:
    shard(tmp_path)
    describe(tmp_path, [1, 2])
    with pytest.raises(ValueError, match=r"dataset.json: field 'schema' must be an object: list"):
        schema_of(tmp_path)
    describe(tmp_path, {**STORED, "colour": 3})
    with pytest.raises(ValueError, match=r"dataset.json: field 'schema' has the unknown field 'colour'"):
        schema_of(tmp_path)
    describe(tmp_path, {"height": 32})
    with pytest.raises(ValueError, match=r"dataset.json: field 'schema': .*max_len"):
        schema_of(tmp_path)


def test_the_default_names_are_guessed(tmp_path: Path) -> None:
    shard(tmp_path, {"some_text": [1, 2, 3, 4]}, {"some_text": [9, 0, 0, 0]})
    assert schema_of(tmp_path) == Schema(max_len=4, height=HEIGHT, width=WIDTH, channels=3, num_classes=10)


@pytest.mark.parametrize("target", ["image/class/label", "y", "target", "words"])
def test_other_names_and_a_single_label_are_guessed(tmp_path: Path, target: str) -> None:
    png = encode_png(pixels(0, 20, 30))
    shard(
        tmp_path,
        *({"image/encoded": png, target: [label], "image/filename": b"a.png"} for label in (0, 6, 3)),
        without=FOREIGN_NAMES,
    )
    assert schema_of(tmp_path) == Schema(
        image_feature="image/encoded",
        target_feature=target,
        id_feature="image/filename",
        max_len=1,
        height=20,
        width=30,
        num_classes=7,
    )


def test_among_several_numbers_the_telling_name_is_taken(tmp_path: Path) -> None:
    shard(
        tmp_path,
        {"image": encode_png(pixels(0)), "height": [32], "width": [96], "class": [4]},
        without=("some_text", "image_id"),
    )
    schema = schema_of(tmp_path)
    assert (schema.target_feature, schema.num_classes, schema.id_feature) == ("class", 5, None)


def test_an_ambiguous_target_names_flag_and_features(tmp_path: Path) -> None:
    shard(
        tmp_path,
        {"image": encode_png(pixels(0)), "label_a": [1], "label_b": [2], "score": [0.5]},
        without=("some_text", "image_id"),
    )
    with pytest.raises(ValueError, match="--target-feature") as caught:
        schema_of(tmp_path)
    assert str(caught.value) == (
        "several features could be the target (int64): name it with --target-feature; there are "
        "'image' (bytes_list), 'label_a' (int64_list), 'label_b' (int64_list), 'score' (float_list)"
    )
    assert schema_of(tmp_path, target_feature="label_b").num_classes == 3


def test_an_ambiguous_image_names_flag_and_features(tmp_path: Path) -> None:
    png = encode_png(pixels(0))
    shard(tmp_path, {"left": png, "right": png}, without=("image",))
    with pytest.raises(
        ValueError, match="several features could be a PNG: name it with --image-feature"
    ) as c:
        schema_of(tmp_path)
    assert "'left' (bytes_list)" in str(c.value)
    assert schema_of(tmp_path, image_feature="right").image_feature == "right"


def test_no_feature_that_could_be_it(tmp_path: Path) -> None:
    shard(tmp_path, {"name": b"no picture"}, without=("image", "image_id"))
    with pytest.raises(ValueError, match="no feature holds a PNG: name it with --image-feature"):
        schema_of(tmp_path)
    shard(tmp_path, {"score": [0.5]}, without=("some_text",))
    with pytest.raises(ValueError, match=r"no feature holds the target \(int64\): name it with"):
        schema_of(tmp_path)
    shard(tmp_path, {}, without=FOREIGN_NAMES)
    with pytest.raises(ValueError, match=r"no feature holds a PNG: .*; there are none"):
        schema_of(tmp_path)


def test_a_named_feature_that_does_not_serve(tmp_path: Path) -> None:
    shard(tmp_path, {"score": [0.5]})
    with pytest.raises(ValueError, match="feature 'score' is no int64_list in the first records"):
        schema_of(tmp_path, target_feature="score")
    with pytest.raises(ValueError, match="feature 'image_id' holds no PNG in the first records"):
        schema_of(tmp_path, image_feature="image_id", id_feature="image")


def test_a_data_set_of_jpegs_says_so(tmp_path: Path) -> None:
    shard(tmp_path, {"image": b"\xff\xd8\xff\xe0" + bytes(100)})
    with pytest.raises(ValueError, match="--image-feature") as caught:
        schema_of(tmp_path)
    assert str(caught.value) == (
        "feature 'image' holds no PNG in the first records (an image is no PNG file: it is a JPEG): "
        "name it with --image-feature"
    )


def test_flags_win_over_the_guess_and_a_full_set_needs_none(tmp_path: Path) -> None:
    shard(tmp_path)
    assert schema_of(tmp_path, num_classes=300, channels=1, alphabet="abc") == Schema(
        max_len=MAX_LEN, height=HEIGHT, width=WIDTH, channels=1, num_classes=300, alphabet="abc"
    )
    with pytest.raises(
        ValueError, match=r"the schema \(flags and the first 1000 records\): num_classes must"
    ):
        schema_of(tmp_path, num_classes=3, alphabet="abc")


def test_a_record_that_is_no_example_is_named(tmp_path: Path) -> None:
    write_shard(tmp_path / "train-0", [record(0), b"\xff\xff garbage"])
    with pytest.raises(ValueError, match=r"train-0: record 1 at byte \d+: is no tf.train.Example"):
        schema_of(tmp_path)


def test_the_guess_looks_at_every_shard(tmp_path: Path) -> None:
    """The classes of data sorted by class are not those of its first shard."""
    for number in range(4):
        write_shard(tmp_path / f"train-{number}", [record(number, {"some_text": [number, 0, 0, 0]})] * 3)
    assert schema_of(tmp_path).num_classes == 4


def test_the_guess_is_said_as_flags(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shard(tmp_path)
    with caplog.at_level(logging.INFO, "loaders"):
        schema = schema_of(tmp_path, num_classes=11)
    assert flags_of(schema) == (
        "--image-feature image --target-feature some_text --id-feature image_id --max-len 4 --height 32 "
        "--width 96 --channels 3 --num-classes 11"
    )
    assert caplog.messages == [f"schema: {flags_of(schema)} (flags not given: from the first 1000 records)"]


def test_text_of_codes() -> None:
    schema = Schema(max_len=5, height=1, width=1, num_classes=5, alphabet="abc")
    assert schema.decode_text([1, 3, 0, 2, 0]) == "ac"
    assert schema.decode_text([2, 4, 1]) == "b<4>a"
    assert Schema(max_len=5, height=1, width=1, num_classes=5).decode_text([2, 0]) == "<2>"
