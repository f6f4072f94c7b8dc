"""Small inputs after failures that people reported in public, each with its documented outcome.

They lie beside the repository, in shared/cases; without that folder these tests are skipped.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loaders.index import index_of, read_index
from loaders.records import read_records
from tests.data import collect, open_loader, write_shard

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases"
SHARD = "train-00000-of-00001.tfrecord"

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the folder shared/cases is not there")

NOT_SERVED = {
    "30-mixed-sizes": "images of several sizes need resizing or padding",
    "71-sorted-by-class": "nothing warns of records that are sorted by class",
    "73-resume-mid-epoch": "a shuffled run can't be resumed",
    "75-xla-string-feature": "what reaches the compiled step is for the tests of training",
    "76-xla-augmentation": "what reaches the compiled step is for the tests of training",
    "77-xla-no-libdevice": "XLA on a GPU is for the tests of training",
    "79-profile-a-few-steps": "the profile is for the tests of training",
}

PIXELS = [
    "01-png16-rgb",
    "03-palette-8bit",
    "04-palette-trns",
    "07-rgba",
    "08-rgb-colour-key",
    "10-filters-split-idat",
    "11-gamma-icc-chunks",
    "24-bytes-after-iend",
]
"""Values: every record's pixels."""

OTHER_SIZES = {"05-low-bit-depths": (6, "32 x 31"), "13-exif-orientation": (1, "24 x 40")}
"""Values, with one record of another size among them (its number, its size)."""

ERRORS = {
    "14-zero-byte-image": (SHARD, 2, "the image is empty (0 bytes)"),
    "15-truncated-png": (SHARD, 2, "the image is cut off: it ends at byte "),
    "17-bad-crc-idat": (SHARD, 2, "the checksum of its IDAT chunk at byte "),
    "19-too-few-rows": (
        SHARD,
        2,
        "the image has too few rows: 3104 bytes of pixels are needed, 1552 are there",
    ),
    "21-header-bomb": (SHARD, 2, "must be 32 x 32 pixels (height x width): 60000 x 60000"),
    "22-real-bomb": (SHARD, 2, "must be 32 x 32 pixels (height x width): 12000 x 12000"),
    "23-zero-dimension": (SHARD, 2, "its header says 32 x 0 pixels (height x width)"),
    "26-jpeg-in-png-set": (SHARD, 2, "the image is no PNG file: it is a JPEG"),
    "33-truncated-last-record": (SHARD, 4, "(4 records before it are sound)"),
    "35-bad-length-crc": (SHARD, 2, "the checksum of its length is wrong"),
    "37-corrupt-then-skip": ("train-00001-of-00002.tfrecord", 1, "the checksum of its length is wrong"),
    "51-label-missing": (SHARD, 2, "feature 'image/class/label' is missing; there are 'image/encoded'"),
    "52-image-key-misspelt": (
        SHARD,
        2,
        "'image/encoded' is missing; there are 'image/class/label', 'image/raw'",
    ),
    "53-label-as-float": (SHARD, 2, "'image/class/label' must be a int64_list: it is a float_list"),
    "55-label-list-empty": (SHARD, 2, "feature 'image/class/label' must hold 1 values (--max-len): 0"),
    "57-two-images-in-list": (SHARD, 2, "feature 'image/encoded' must hold 1 values: 2"),
    "59-empty-record": (SHARD, 2, "feature 'image/encoded' is missing; the record has none"),
    "60-raw-pixels-not-png": (SHARD, 2, "(as many bytes as raw pixels: they must be PNG files)"),
    "62-label-out-of-range": (SHARD, 1, "a code must be from 0 to 9 (--num-classes): -1"),
}
"""Errors that name the shard, the record's number and byte, and these words."""

INDEXES = ["40-idx-missing", "41-idx-empty", "42-idx-stale-offsets"]

OTHERS = [
    "31-gzip-shard",
    "38-empty-shard",
    "45-idx-pairing-order",
    "46-idx-caught-by-glob",
    "47-odd-file-names",
    "49-git-lfs-pointer",
    "64-fewer-files-than-workers",
    "66-smaller-than-a-batch",
    "67-partial-last-batch",
    "69-one-epoch-no-duplicates",
    "72-order-reproducible",
    "78-dali-without-gpu",
]
"""Each with a test of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """A copy of a case's folder, and what it must give."""

    folder: Path
    expect: dict[str, Any]

    def open(self, backend: str, pattern: str = "", **changes: Any) -> Any:
        """A loader of the case's shards; one pass in batches of four unless ``changes`` say otherwise."""
        flags = {
            "image_feature": self.expect["schema"]["image"],
            "target_feature": self.expect["schema"]["label"],
            "num_classes": self.expect["num_classes"],
            "batch_size": self.expect["config"].get("batch", 4),
            "form": "eval",
            **changes,
        }
        # Brackets of the folder's own name are no pattern.
        data = str(self.folder / pattern) if pattern else str(self.folder)
        return open_loader(data, backend, **flags)

    @property
    def shards(self) -> list[Path]:
        return [self.folder / name for name in sorted(self.expect["shards"])]

    def labels(self, shard: Path | None = None) -> list[int]:
        """The label of every sound record, in the planned order."""
        from loaders.example import parse_example

        name = self.expect["schema"]["label"]
        return [
            int(parse_example(record)[name][1][0])
            for path in ([shard] if shard else self.shards)
            for _, record in read_records(str(path))
        ]

    def pixels(self) -> dict[str, np.ndarray[Any, Any]]:
        with np.load(self.folder / self.expect["pixels"]) as stored:
            return {name: stored[name] for name in stored.files}


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    """A copy of the case that the test's ``@pytest.mark.parametrize("case", ..., indirect=True)`` names."""
    folder = tmp_path / request.param
    # The contents alone: what is copied may be read-only, and indexes are written beside the shards.
    shutil.copytree(CASES / request.param, folder, copy_function=shutil.copyfile)
    for each in [folder, *folder.rglob("*")]:
        each.chmod(0o755 if each.is_dir() else 0o644)
    expect = json.loads((folder / "expect.json").read_bytes())
    # numpy's file is no shard, and would be an error, as any other file is.
    if "pixels" in expect:
        (tmp_path / "pixels").mkdir()
        shutil.move(folder / expect["pixels"], tmp_path / "pixels")
        expect["pixels"] = tmp_path / "pixels" / expect["pixels"]
    return Case(folder=folder, expect=expect)


def of(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [name], indirect=True)


def labels_of(tokens: np.ndarray[Any, Any], valid: np.ndarray[Any, Any]) -> list[int]:
    labels: list[int] = tokens[valid][:, 0].tolist()
    return labels


def test_every_case_has_its_place_here() -> None:
    known = [*NOT_SERVED, *PIXELS, *OTHER_SIZES, *ERRORS, *INDEXES, *OTHERS]
    assert sorted(known) == sorted(each.name for each in CASES.iterdir() if each.is_dir())


@pytest.mark.parametrize("name", NOT_SERVED)
def test_not_served(name: str) -> None:
    pytest.skip(f"{name}: {NOT_SERVED[name]}")


@pytest.mark.parametrize("case", PIXELS, indirect=True)
def test_pixels(case: Case, backend: str) -> None:
    images, tokens, valid = collect(case.open(backend).dataset())
    wanted = case.pixels()
    assert len(wanted) == valid.sum() == sum(case.expect["shards"].values())
    for record, image in enumerate(images[valid]):
        difference = image.astype(int) - wanted[f"{SHARD}#{record}"].astype(int)
        assert np.abs(difference).max() <= case.expect["tolerance"], record
    assert labels_of(tokens, valid) == case.labels()


@pytest.mark.parametrize("case", OTHER_SIZES, indirect=True)
def test_pixels_with_a_record_of_another_size(case: Case, backend: str) -> None:
    record, size = OTHER_SIZES[case.folder.name]
    words = rf"{SHARD}: record {record} at byte \d+: .*must be 32 x 32 pixels \(height x width\): {size}"
    with pytest.raises(ValueError, match=words):
        case.open(backend)

    # The others must have the right pixels all the same.
    records = [data for _, data in read_records(str(case.folder / SHARD))]
    numbers = [number for number in range(len(records)) if number != record]
    write_shard(case.folder / SHARD, [records[number] for number in numbers])
    images, _, valid = collect(case.open(backend).dataset())
    wanted = case.pixels()
    for number, image in zip(numbers, images[valid], strict=True):
        assert (image == wanted[f"{SHARD}#{number}"]).all(), number

    # And the one alone, where its size is said.
    height, width = map(int, size.split(" x "))
    write_shard(case.folder / SHARD, [records[record]])
    images, _, valid = collect(case.open(backend, height=height, width=width).dataset())
    assert (images[valid][0] == wanted[f"{SHARD}#{record}"]).all()


@pytest.mark.parametrize("case", ERRORS, indirect=True)
def test_errors_that_name_the_record(case: Case, backend: str) -> None:
    assert "error" in (case.expect["kind"], *case.expect["also_ok"])
    shard, record, words = ERRORS[case.folder.name]
    # In training too, before the first step.
    for form in ("eval", "train"):
        with pytest.raises(ValueError, match=rf"{shard}: .*record {record} at byte \d+") as caught:
            case.open(backend, form=form, batch_size=1)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("case", INDEXES, indirect=True)
def test_indexes(case: Case, backend: str) -> None:
    _, tokens, valid = collect(case.open(backend).dataset())
    assert labels_of(tokens, valid) == case.labels()
    assert valid.sum() == sum(case.expect["shards"].values())
    if backend == "dali":
        for shard in case.shards:
            assert (read_index(f"{shard}.idx") == index_of(str(shard))).all()


@of("31-gzip-shard")
def test_gzip(case: Case, backend: str) -> None:
    for shard in case.shards:
        with pytest.raises(ValueError, match="is no TFRecord file: it is GZIP-compressed") as caught:
            case.open(backend, shard.name)
        assert str(shard) in str(caught.value)


@of("38-empty-shard")
def test_an_empty_shard(case: Case, backend: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "loaders"):
        loader = case.open(backend)
    empty = case.folder / "train-00001-of-00003.tfrecord"
    assert f"{empty}: the shard is empty (0 bytes) and is left out" in caplog.messages
    _, tokens, valid = collect(loader.dataset())
    assert valid.sum() == 10
    assert labels_of(tokens, valid) == case.labels(case.shards[0]) + case.labels(case.shards[2])


@of("45-idx-pairing-order")
def test_indexes_in_another_folder(case: Case, backend: str) -> None:
    _, tokens, valid = collect(
        case.open(backend, "shard-*.tfrecord", index_dir=str(case.folder / "idx")).dataset()
    )
    # By name, 10 is before 2.
    assert case.expect["shards"] == {"shard-10.tfrecord": 10, "shard-2.tfrecord": 2}
    assert labels_of(tokens, valid) == [
        *case.labels(case.folder / "shard-10.tfrecord"),
        *case.labels(case.folder / "shard-2.tfrecord"),
    ]
    # They were right: none was made.
    assert sorted(os.listdir(case.folder / "idx")) == ["shard-10.tfrecord.idx", "shard-2.tfrecord.idx"]


@of("46-idx-caught-by-glob")
def test_a_pattern_that_catches_indexes(case: Case, backend: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "loaders"):
        loader = case.open(backend, case.expect["config"]["pattern"])
    assert loader.source.paths == [str(shard) for shard in case.shards]
    assert "left out 3 files that are no shards: " in caplog.text
    _, tokens, valid = collect(loader.dataset())
    assert labels_of(tokens, valid) == case.labels()


@of("47-odd-file-names")
@pytest.mark.parametrize("pattern", ["", "*.tfrecord", "*"])
def test_odd_file_names(case: Case, backend: str, pattern: str) -> None:
    loader = case.open(backend, pattern)
    assert [Path(path).name for path in loader.source.paths] == sorted(case.expect["shards"])
    _, tokens, valid = collect(loader.dataset())
    assert valid.sum() == 12
    assert labels_of(tokens, valid) == case.labels()


@of("49-git-lfs-pointer")
def test_a_git_lfs_pointer(case: Case, backend: str) -> None:
    with pytest.raises(
        ValueError, match=f"{SHARD}: is no TFRecord file: it is a Git LFS pointer; run `git lfs"
    ):
        case.open(backend)


@of("64-fewer-files-than-workers")
def test_fewer_files_than_workers(case: Case, backend: str) -> None:
    shares = []
    for worker in range(case.expect["config"]["workers"]):
        _, tokens, valid = collect(case.open(backend, shard_id=worker, num_shards=2).dataset())
        shares.append(labels_of(tokens, valid))
    assert shares[0] + shares[1] == case.labels()
    assert [len(share) for share in shares] == [1, 2]


@of("66-smaller-than-a-batch")
def test_smaller_than_a_batch(case: Case, backend: str) -> None:
    with pytest.raises(
        ValueError, match=r"the 3 records are fewer than one batch of 8.*no step could be made"
    ):
        case.open(backend, form="train")


@of("67-partial-last-batch")
def test_a_partial_last_batch(case: Case, backend: str) -> None:
    loader = case.open(backend)
    for _ in range(case.expect["config"]["epochs"]):
        images, tokens, valid = collect(loader.dataset())
        assert valid.sum(axis=1).tolist() == [4, 4, 2]
        assert images.shape[:2] == (3, 4), "one shape for all batches, so that XLA compiles once"
        assert labels_of(tokens, valid) == case.labels()


@of("69-one-epoch-no-duplicates")
def test_two_readers_give_every_record_once(case: Case, backend: str) -> None:
    for _ in range(case.expect["config"]["epochs"]):
        seen: list[int] = []
        for worker in range(2):
            _, tokens, valid = collect(case.open(backend, shard_id=worker, num_shards=2).dataset())
            assert valid.sum() == 5
            seen += labels_of(tokens, valid)
        assert seen == case.labels() == list(range(10))


@of("72-order-reproducible")
@pytest.mark.parametrize("shuffle", ["records", "none"])
def test_a_reproducible_order(case: Case, backend: str, shuffle: str) -> None:
    runs = []
    for _ in range(case.expect["config"]["runs"]):
        loader = case.open(
            backend, form="train", shuffle=shuffle, seed=case.expect["config"]["seed"], deterministic=True
        )
        images, tokens = collect(loader.dataset(), 18)
        runs.append((images.tobytes(), tokens.tobytes()))
    assert runs[0] == runs[1]


@of("78-dali-without-gpu")
def test_dali_without_a_gpu(case: Case, backend: str) -> None:
    loader = case.open(backend, form="train", device="cpu", shuffle="none", deterministic=True)
    assert loader.name == backend
    _, tokens = collect(loader.dataset(), 2)
    assert tokens.reshape(-1).tolist() == case.labels()
