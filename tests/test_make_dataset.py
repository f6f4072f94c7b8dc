"""Data sets: what is written, that it is the same each time, and what goes wrong in a sentence."""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from loaders.example import parse_example
from loaders.index import index_of, read_index
from loaders.records import read_records
from loaders.spec import Schema
from loaders.writer import bytes_feature, encode_example, encode_record, int64_feature
from tools.dataset.config import DIGITS_AND_LETTERS, DatasetConfig, rendered_schema
from tools.dataset.fonts import faces_for
from tools.dataset.lettering import place_text
from tools.dataset.make import make_dataset, shard_sizes
from tools.dataset.render import recipe_of, render_record
from tools.dataset.workers import map_in_order

ROOT = Path(__file__).parent.parent
SCRIPT = str(ROOT / "tools" / "make_dataset.py")
SMALL = ("--records", "8", "--height", "16", "--width", "48", "--max-len", "3", "--workers", "1")


def small(out: Path, **changes: Any) -> DatasetConfig:
    """A set that is made in a moment."""
    settings = {"records": 7, "shards": 3, "height": 16, "width": 48, "max_len": 3, "workers": 1}
    return DatasetConfig(out=out, **{**settings, **changes})


def command(*words: object) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user does."""
    return subprocess.run(
        [sys.executable, SCRIPT, *map(str, words)], capture_output=True, text=True, check=False, timeout=60
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.tfrecord"))


def records(folder: Path) -> list[dict[str, Any]]:
    """The features of every record, shard after shard."""
    return [
        {name: list(values) for name, (_, values) in parse_example(record).items()}
        for shard in shards(folder)
        for _, record in read_records(str(shard))
    ]


def png(*, height: int = 12, width: int = 30, mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, (width, height), 1 if mode == "P" else None).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three images and their labels; the second text is empty."""
    folder = tmp_path / "own"
    folder.mkdir()
    for number, color in enumerate(("red", "green", "blue")):
        Image.new("RGB", (30, 12), color).save(folder / f"{number}.png")
    write_labels(folder, [("0.png", "ba"), ("1.png", ""), ("2.png", "é,b")])
    return folder


def write_labels(folder: Path, rows: Sequence[Sequence[str]], **how: Any) -> None:
    with open(folder / "labels.csv", "w", newline="", encoding=how.get("encoding", "utf-8")) as file:
        csv.writer(file).writerows(rows)


class TestExample:
    @given(
        st.dictionaries(
            st.text(max_size=20),
            st.one_of(
                st.lists(st.binary(max_size=300), max_size=4),
                st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20),
            ),
            max_size=5,
        )
    )
    def test_tensorflow_parses_what_was_encoded(self, features: dict[str, Any]) -> None:
        import tensorflow as tf

        expected = tf.train.Example()
        expected.features.SetInParent()
        encoded = {}
        for name, values in features.items():
            if values and isinstance(values[0], int):
                expected.features.feature[name].int64_list.value.extend(values)
                encoded[name] = int64_feature(values)
            else:
                feature = expected.features.feature[name]
                feature.bytes_list.SetInParent()
                feature.bytes_list.value.extend(values)
                encoded[name] = bytes_feature(values)
        ours = encode_example(encoded)
        assert tf.train.Example.FromString(ours) == expected
        assert encode_example(dict(reversed(encoded.items()))) == ours

    def test_an_empty_list_keeps_its_kind(self) -> None:
        import tensorflow as tf

        example = tf.train.Example.FromString(
            encode_example({"a": int64_feature([]), "b": bytes_feature([])})
        )
        assert example.features.feature["a"].WhichOneof("kind") == "int64_list"
        assert example.features.feature["b"].WhichOneof("kind") == "bytes_list"

    @pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
    def test_a_number_beyond_64_bits(self, value: int) -> None:
        with pytest.raises(ValueError, match=rf"must be from -2\^63 to 2\^63 - 1: {value}"):
            int64_feature([1, value])

    def test_codes_must_fit_the_schema(self) -> None:
        schema = Schema(max_len=2, height=1, width=1, num_classes=3)
        with pytest.raises(ValueError, match="at most max_len 2 codes: 3"):
            encode_record(schema, image=b"", codes=[1, 1, 1], image_id=b"")
        with pytest.raises(ValueError, match="code must be from 0 to 2: 3"):
            encode_record(schema, image=b"", codes=[1, 3], image_id=b"")


class TestRendered:
    def test_what_a_set_holds(self, tmp_path: Path) -> None:
        path = make_dataset(small(tmp_path / "a"))
        assert names(tmp_path / "a") == [
            "dataset.json",
            *(f"train-0000{n}-of-00003.tfrecord{end}" for n in range(3) for end in ("", ".idx")),
        ]
        content = json.loads(path.read_text())
        assert (content["format"], content["version"]) == ("feedline-dataset", 1)
        assert content["schema"] == asdict(rendered_schema(small(tmp_path)))
        assert content["records"] == 7
        assert [shard["records"] for shard in content["shards"]] == [3, 2, 2]
        assert content["options"] == {"train": {"style": "line", "seed": 0, "min_len": 1}}
        for shard in content["shards"]:
            data = (tmp_path / "a" / shard["name"]).read_bytes()
            assert (shard["bytes"], shard["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())

    def test_what_a_record_holds(self, tmp_path: Path) -> None:
        make_dataset(small(tmp_path, image_feature="png", target_feature="text", id_feature="key"))
        found = records(tmp_path)
        assert [record["key"] for record in found] == [[b"train-%08d" % number] for number in range(7)]
        for record in found:
            image = Image.open(io.BytesIO(record["png"][0]))
            assert (image.format, image.mode, image.size) == ("PNG", "RGB", (48, 16))
            assert len(record["text"]) == 3
            length = sum(code != 0 for code in record["text"])
            assert length >= 1
            assert not any(record["text"][length:])
        # Each image's bytes are counted, the framing and the other features are not.
        shards_told = json.loads((tmp_path / "dataset.json").read_text())["shards"]
        assert sum(shard["image_bytes"] for shard in shards_told) == sum(len(r["png"][0]) for r in found)

    def test_tensorflow_and_the_index_agree_with_the_shards(self, tmp_path: Path) -> None:
        import tensorflow as tf

        make_dataset(small(tmp_path))
        for shard in shards(tmp_path):
            ours = [record for _, record in read_records(str(shard))]
            assert list(tf.data.TFRecordDataset(str(shard)).as_numpy_iterator()) == ours
            assert read_index(f"{shard}.idx").tolist() == index_of(str(shard)).tolist()

    def test_the_loaders_find_the_schema(self, tmp_path: Path) -> None:
        from loaders.config import LoaderFlags
        from loaders.guess import resolve_schema
        from loaders.shards import find_shards

        make_dataset(small(tmp_path, channels=1))
        found = find_shards([str(tmp_path / "train-*")])
        assert resolve_schema(LoaderFlags(), found) == rendered_schema(small(tmp_path, channels=1))

    @pytest.mark.parametrize("style", ["line", "photo"])
    def test_the_same_seed_gives_the_same_bytes(self, tmp_path: Path, style: str) -> None:
        for out, changes in (("one", {}), ("two", {"workers": 2}), ("other", {"seed": 1})):
            make_dataset(small(tmp_path / out, style=style, records=130, **changes))
        assert contents(tmp_path / "one") == contents(tmp_path / "two")
        images = [{record["image"][0] for record in records(tmp_path / out)} for out in ("one", "other")]
        assert not images[0] & images[1]

    def test_a_held_out_set_has_its_own_images(self, tmp_path: Path) -> None:
        make_dataset(small(tmp_path))
        make_dataset(small(tmp_path, name="test", shards=1))
        content = json.loads((tmp_path / "dataset.json").read_text())
        assert content["records"] == 14
        assert content["shards"][0]["name"] == "test-00000-of-00001.tfrecord"
        assert list(content["options"]) == ["train", "test"]
        assert len({record["image"][0] for record in records(tmp_path)}) == 14

    @pytest.mark.parametrize(
        ("style", "least", "most"), [("line", 2_000, 16_000), ("photo", 90_000, 130_000)]
    )
    def test_size_of_a_png(self, tmp_path: Path, style: Any, least: int, most: int) -> None:
        recipe = recipe_of(DatasetConfig(out=tmp_path, style=style))
        sizes = [render_record(recipe, number).image_bytes for number in range(24)]
        assert least <= min(sizes)
        assert max(sizes) <= most

    @pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB"), (4, "RGBA")])
    def test_channels(self, tmp_path: Path, channels: int, mode: str) -> None:
        make_dataset(small(tmp_path, channels=channels))
        assert {Image.open(io.BytesIO(record["image"][0])).mode for record in records(tmp_path)} == {mode}

    def test_the_whole_text_is_on_the_image_and_dark_enough(self) -> None:
        rng = np.random.default_rng(3)
        faces = faces_for(DIGITS_AND_LETTERS)
        for length in [*range(1, 17)] * 5:
            text = "".join(DIGITS_AND_LETTERS[code] for code in rng.integers(62, size=length))
            width, height = int(rng.integers(6 * length, 300)), int(rng.integers(12, 300))
            ink = np.asarray(place_text(rng, text, faces=faces, height=height, width=width).ink)
            assert ink.shape == (height, width)
            edges = np.concatenate([ink[0], ink[-1], ink[:, 0], ink[:, -1]])
            # A letter that is cut off would show its full stroke at the edge.
            assert edges.max() < 128

    def test_an_alphabet_beyond_latin(self, tmp_path: Path) -> None:
        make_dataset(small(tmp_path, alphabet="абвЖ", max_len=4))
        assert {code for record in records(tmp_path) for code in record["some_text"]} <= set(range(5))

    @pytest.mark.parametrize(
        ("records", "shards", "sizes"), [(7, 3, [3, 2, 2]), (6, 3, [2, 2, 2]), (1, 1, [1])]
    )
    def test_shard_sizes(self, records: int, shards: int, sizes: list[int]) -> None:
        assert shard_sizes(records, shards) == sizes


class TestFolder:
    def config(self, out: Path, folder: Path, **changes: Any) -> DatasetConfig:
        return DatasetConfig(**{"out": out, "from_folder": folder, "shards": 2, **changes})

    def test_the_images_keep_their_bytes(self, tmp_path: Path, folder: Path) -> None:
        path = make_dataset(self.config(tmp_path / "out", folder))
        found = records(tmp_path / "out")
        assert [r["image"][0] for r in found] == [(folder / f"{n}.png").read_bytes() for n in range(3)]
        assert [r["image_id"][0] for r in found] == [b"0.png", b"1.png", b"2.png"]
        assert [r["some_text"] for r in found] == [[3, 2, 0], [0, 0, 0], [4, 1, 3]]
        schema = json.loads(path.read_text())["schema"]
        assert (schema["alphabet"], schema["num_classes"], schema["max_len"]) == (",abé", 5, 3)
        assert (schema["height"], schema["width"], schema["channels"]) == (12, 30, 3)

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
    @pytest.mark.parametrize("header", [("file", "text"), ("Filename", "Text"), ("file_name", "text"), None])
    def test_headers_and_byte_order_marks(
        self, tmp_path: Path, folder: Path, encoding: str, header: Any
    ) -> None:
        rows = [("0.png", "a"), ("./2.png", "b")]
        write_labels(folder, [header, *rows] if header else rows, encoding=encoding)
        make_dataset(self.config(tmp_path / "out", folder))
        assert [r["image_id"][0] for r in records(tmp_path / "out")] == [b"0.png", b"2.png"]

    def test_flags_overrule_the_guesses(self, tmp_path: Path, folder: Path) -> None:
        labels = tmp_path / "texts.csv"
        (folder / "labels.csv").rename(labels)
        out = tmp_path / "out"
        config = self.config(out, folder, labels=labels, alphabet="é,bax", max_len=5, channels=1)
        schema = json.loads(make_dataset(config).read_text())["schema"]
        assert (schema["alphabet"], schema["max_len"], schema["channels"]) == ("é,bax", 5, 1)
        assert records(out)[0]["some_text"] == [3, 4, 0, 0, 0]

    def test_another_schema_in_the_same_folder(self, tmp_path: Path, folder: Path) -> None:
        make_dataset(self.config(tmp_path / "out", folder))
        write_labels(folder, [("0.png", "ab"), ("1.png", "b")])
        with pytest.raises(ValueError, match="holds 'train' with max_len 3, not 2: sets in one folder"):
            make_dataset(self.config(tmp_path / "out", folder, name="test"))

    @pytest.mark.parametrize(
        ("rows", "words"),
        [
            ([], r"labels\.csv: holds no line with a file name and a text"),
            ([("file", "text")], r"labels\.csv: holds no line with a file name and a text"),
            ([("0.png",)], r"labels\.csv: line 1 must have two columns, file name and text: it has 1"),
            (
                [("0.png", "a"), ("no.png", "a")],
                r"labels\.csv: line 2: there is no file 'no\.png' in '.*own'",
            ),
            ([("a\nb.png", "a"), ("0.png", "a", "b")], r"labels\.csv: line 3 must have two columns"),
            ([("0.png", "a"), ("./0.png", "b")], r"line 2: '0\.png' was on line 1 already"),
            ([("../0.png", "a")], r"line 1: the file must be inside of --from-folder: '\.\./0\.png'"),
            ([("/0.png", "a")], r"line 1: the file must be inside of --from-folder: '/0\.png'"),
            ([("", "a")], r"line 1: the file name is empty"),
            ([("é" * 31 + ".png", "a")], r"line 1: the file name becomes .* at most 64 bytes, and has 66: "),
            ([("0.png", ""), ("1.png", "")], r"line 1 and all others have an empty text"),
            ([("labels.csv", "a"), ("0.png", "a")], r"line 1: 'labels\.csv' is no PNG file: it begins with"),
        ],
    )
    def test_a_wrong_table(self, tmp_path: Path, folder: Path, rows: list[list[str]], words: str) -> None:
        write_labels(folder, rows)
        with pytest.raises(ValueError, match=words):
            make_dataset(self.config(tmp_path / "out", folder, shards=1))
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (b"", r"line 3: '2\.png' is empty \(0 bytes\)"),
            (b"\xff\xd8\xff\xe0" + bytes(40), r"line 3: '2\.png' is no PNG file: it is a JPEG"),
            (b"GIF89a" + bytes(40), r"line 3: '2\.png' is no PNG file: it is a GIF"),
            (png()[:30], r"line 3: '2\.png' is cut off"),
            (png()[:60], r"line 3: '2\.png' is cut off"),
            (png().replace(b"IDAT", b"IDAT\0", 1)[:-1], r"line 3: '2\.png' is damaged: "),
            (png(width=31), r"'2\.png' is 12 x 31 pixels with 3 channels, not 12 x 30 .* as '0\.png'"),
            (
                png(mode="L"),
                r"'2\.png' is 12 x 30 pixels with 1 channels, not 12 x 30 pixels with 3 channels",
            ),
            (png()[:16] + struct.pack(">I", 0) + png()[20:], r"line 3: '2\.png' is damaged"),
        ],
    )
    def test_a_wrong_image(self, tmp_path: Path, folder: Path, data: bytes, words: str) -> None:
        (folder / "2.png").write_bytes(data)
        with pytest.raises(ValueError, match=words):
            make_dataset(self.config(tmp_path / "out", folder))
        # What is found only when the file is read as a whole leaves an empty folder.
        assert not (tmp_path / "out").exists() or not names(tmp_path / "out")

    def test_a_table_that_is_no_utf8_or_no_csv(self, tmp_path: Path, folder: Path) -> None:
        (folder / "labels.csv").write_bytes(b"0.png,a\n1.png,\xe9\n")
        with pytest.raises(ValueError, match=r"labels\.csv: must be UTF-8, which it is not near line"):
            make_dataset(self.config(tmp_path / "out", folder))
        (folder / "labels.csv").write_bytes(b'0.png,a\n1.png,"a"b\n')
        with pytest.raises(ValueError, match=r"labels\.csv: line 2 is no CSV"):
            make_dataset(self.config(tmp_path / "out", folder))

    def test_sixteen_bits_are_told(
        self, tmp_path: Path, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        for number in range(3):
            Image.fromarray(np.zeros((12, 30), np.uint16)).save(folder / f"{number}.png")
        make_dataset(self.config(tmp_path / "out", folder))
        assert "3 images have 16 bits a channel" in caplog.text


class TestCommandLine:
    def test_help_is_quick_and_imports_little(self) -> None:
        code = (
            f"import runpy, sys; sys.argv = ['make_dataset.py', '--help']\n"
            f"try: runpy.run_path({SCRIPT!r}, run_name='__main__')\n"
            f"except SystemExit as end: assert not end.code\n"
            f"assert not {{'tensorflow', 'matplotlib', 'PIL', 'numpy'}} & set(sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert "--from-folder" in done.stdout

    def test_what_a_run_says(self, tmp_path: Path) -> None:
        out = tmp_path / "a set"
        done = command(out, *SMALL)
        assert done.returncode == 0
        assert done.stderr.splitlines() == [f"{number} of 8 records" for number in (2, 4, 6, 8)]
        first, second = done.stdout.splitlines()
        assert first.startswith(f"{out}: 8 records in 4 shards, 0.0 MB, 0.")
        assert first.endswith(" KB a PNG")
        assert second == f"train on it: uv run python -m training --loader tfdata --data '{out}/train-*'"

    @pytest.mark.parametrize(
        ("flags", "words"),
        [
            ("--style oil", "--style"),
            ("--colour red", "Unrecognized options: --colour"),
            ("--records 0", "--records must be at least 1: 0"),
            ("--records 3 --shards 4", "--shards must be at most the number of records, 3: 4"),
            ("--shards 100000 --records 200000", "--shards must be at most 99999: 100000"),
            ("--seed -1", "--seed must be at least 0: -1"),
            ("--channels 2", "--channels must be 1, 3 or 4: 2"),
            ("--name a/b", "--name must be up to 50 letters, digits and '_.-': 'a/b'"),
            ("--alphabet aba", "--alphabet must be at least one character, each once: 'aba'"),
            ("--alphabet a中", "--alphabet has a character that none of matplotlib's fonts can draw: '中'"),
            ("--min-len 17", "--min-len must be at most --max-len 16: 17"),
            ("--height 11", "--height must be at least 12 pixels to read a text: 11"),
            ("--width 95", "--width must be at least 96 pixels to read 16 characters: 95"),
            ("--id-feature image", "--image-feature, --target-feature and --id-feature must be three names"),
            ("--labels a.csv", "--labels needs --from-folder: 'a.csv'"),
            ("--from-folder /no/such", "--from-folder must be a folder: '/no/such'"),
            ("--from-folder tests --seed 3", "--seed is for rendered texts, not for --from-folder: 3"),
            ("--from-folder tests --labels no.csv", "--labels must be a CSV file of file names and texts"),
        ],
    )
    def test_a_wrong_flag_is_one_line_and_exit_2(self, tmp_path: Path, flags: str, words: str) -> None:
        done = command(tmp_path / "out", *flags.replace("tests", str(ROOT / "tests")).split())
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("make_dataset.py: error: ")
        assert done.stderr.count("\n") == 1
        assert words in done.stderr
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        ("flags", "words"),
        [
            ("--alphabet abé", "labels.csv: line 3: character ',' is not in --alphabet 'abé'"),
            ("--max-len 2", "line 3: the text must have at most --max-len 2 characters and has 3: 'é,b'"),
            ("--height 13", "'0.png' is 12 x 30 pixels with 3 channels, not 13 x any pixels"),
            ("--shards 4", "--shards must be at most the number of records, 3: 4"),
        ],
    )
    def test_flags_that_the_folder_breaks(self, tmp_path: Path, folder: Path, flags: str, words: str) -> None:
        done = command(tmp_path / "out", "--from-folder", folder, "--shards", 2, *flags.split())
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert words in done.stderr


class TestOverwrite:
    def test_a_set_is_replaced_only_when_asked(self, tmp_path: Path) -> None:
        make_dataset(small(tmp_path))
        before = contents(tmp_path)
        with pytest.raises(ValueError, match=r"holds a data set named 'train' already: give --overwrite"):
            make_dataset(small(tmp_path, seed=1))
        assert contents(tmp_path) == before
        make_dataset(small(tmp_path, seed=1, shards=2, overwrite=True))
        assert len(shards(tmp_path)) == 2
        assert json.loads((tmp_path / "dataset.json").read_text())["options"]["train"]["seed"] == 1

    def test_only_files_of_the_set_are_removed(self, tmp_path: Path) -> None:
        mine = [
            "train-0-of-1.tfrecord",
            "train-00000-of-00001.tfrecord.bak",
            "train.txt",
            "xtrain-00000-of-00001.tfrecord",
        ]
        old = [
            "train-00007-of-00009.tfrecord",
            "train-00007-of-00009.tfrecord.idx",
            ".train-00007-of-00009.tfrecord.x1_.part",
        ]
        for name in mine + old:
            (tmp_path / name).write_bytes(b"")
        with pytest.raises(ValueError, match="holds shards of an unfinished data set named 'train' already"):
            make_dataset(small(tmp_path))
        make_dataset(small(tmp_path, overwrite=True))
        assert set(mine) < set(names(tmp_path))
        assert not set(old) & set(names(tmp_path))

    def test_a_set_beside_survives(self, tmp_path: Path) -> None:
        make_dataset(small(tmp_path, name="test", shards=1))
        test_shard = contents(tmp_path)["test-00000-of-00001.tfrecord"]
        make_dataset(small(tmp_path))
        make_dataset(small(tmp_path, overwrite=True, seed=2))
        assert contents(tmp_path)["test-00000-of-00001.tfrecord"] == test_shard
        assert json.loads((tmp_path / "dataset.json").read_text())["records"] == 14

    @pytest.mark.parametrize(
        "content", [b"not json", b'{"format": "other"}', b'{"format": "feedline-dataset", "version": 1}']
    )
    def test_a_foreign_dataset_json_is_left_alone(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "dataset.json").write_bytes(content)
        with pytest.raises(ValueError, match=r"dataset\.json: "):
            make_dataset(small(tmp_path, overwrite=True))
        assert contents(tmp_path) == {"dataset.json": content}

    def test_out_is_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "out").write_bytes(b"")
        with pytest.raises(ValueError, match=r"OUT must be a folder: '.*out'"):
            make_dataset(small(tmp_path / "out"))


class TestFailure:
    def test_a_full_disk_is_one_sentence_and_leaves_nothing(self, tmp_path: Path) -> None:
        code = (
            "import errno, os, runpy, sys\n"
            "real, calls = os.fsync, []\n"
            "def fsync(descriptor):\n"
            "    calls.append(descriptor)\n"
            "    if len(calls) == 5: raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"
            "    real(descriptor)\n"
            "os.fsync = fsync\n"
            f"runpy.run_path({SCRIPT!r}, run_name='__main__')"
        )
        out = tmp_path / "out"
        done = subprocess.run(
            [sys.executable, "-c", code, out, *SMALL], capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, done.stdout) == (1, "")
        complaint = done.stderr.splitlines()[-1]
        assert complaint == (f"make_dataset.py: error: {out}/train-00002-of-00004.tfrecord: the disk is full")
        assert names(out) == []

    def test_a_write_that_the_system_refuses(self, tmp_path: Path) -> None:
        make_dataset(small(tmp_path, name="test"))
        before = names(tmp_path)
        done = subprocess.run(
            [sys.executable, SCRIPT, tmp_path, *SMALL],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400)),
        )
        assert done.returncode == 1
        complaint = done.stderr.splitlines()[-1]
        assert complaint == (
            f"make_dataset.py: error: {tmp_path}/train-00000-of-00004.tfrecord: File too large"
        )
        assert names(tmp_path) == before

    def test_a_failure_in_the_last_write_leaves_no_shard(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object, **__: object) -> Path:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr("tools.dataset.make.publish", refuse)
        with pytest.raises(OSError, match="Input/output error"):
            make_dataset(small(tmp_path))
        assert names(tmp_path) == []

    @pytest.mark.parametrize("workers", [1, 2])
    @pytest.mark.parametrize(
        ("number", "status", "ending"),
        [(signal.SIGINT, 130, "make_dataset.py: error: interrupted\n"), (signal.SIGTERM, 143, "")],
    )
    def test_an_interrupt_leaves_nothing(
        self, tmp_path: Path, workers: int, number: int, status: int, ending: str
    ) -> None:
        out = tmp_path / "out"
        running = subprocess.Popen(
            [sys.executable, SCRIPT, out, *f"--records 4000 --shards 300 --workers {workers}".split()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A shell's background job, and all that it starts, ignores Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )
        wait_until(lambda: out.is_dir() and len(shards(out)) > 2)
        # Ctrl-C goes to the whole group, kill to the one process.
        (os.killpg if number == signal.SIGINT else os.kill)(running.pid, number)
        # How soon depends on the disk: a file that is being flushed is waited for.
        stdout, stderr = running.communicate(timeout=120)
        assert (running.returncode, stdout, stderr) == (status, "", ending)
        assert names(out) == []

    def test_workers_end_when_their_parent_is_killed(self, tmp_path: Path) -> None:
        import psutil

        running = subprocess.Popen(
            [sys.executable, SCRIPT, tmp_path / "out", "--shards", "300", "--workers", "2"]
        )
        wait_until(lambda: (tmp_path / "out").is_dir() and len(shards(tmp_path / "out")) > 2)
        children = psutil.Process(running.pid).children(recursive=True)
        assert len(children) >= 2
        running.kill()
        running.wait()
        assert psutil.wait_procs(children, timeout=10)[1] == []
        with pytest.raises(ValueError, match="shards of an unfinished data set"):
            make_dataset(small(tmp_path / "out"))
        make_dataset(small(tmp_path / "out", overwrite=True))
        assert len(names(tmp_path / "out")) == 7

    def test_a_worker_that_is_killed(self) -> None:
        from loaders.cli import RunFailed

        with pytest.raises(RunFailed, match="a process that renders was killed"):
            list(map_in_order(_die, [1, 2, 3], workers=2))


def _die(_: int) -> None:
    os._exit(9)


def wait_until(true: Callable[[], bool]) -> None:
    for _ in range(2400):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("it took longer than 2 minutes")
