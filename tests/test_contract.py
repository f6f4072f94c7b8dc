"""The contract of a loader, one suite for every backend: elements, order, sharding, errors.

Shapes: B batch, H height, W width, C channels, T codes a record, N bytes of an id.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import tensorflow as tf

from loaders.config import LoaderConfig
from loaders.factory import choose_backend
from tests.data import (
    HEIGHT,
    MAX_LEN,
    SHARD_RECORDS,
    WIDTH,
    Data,
    codes,
    collect,
    config,
    ids_of,
    image_id,
    make_data,
    open_loader,
    pixels,
    record,
    write_shard,
)
from tests.pngs import encode_png

BATCH = 16
RECORDS = sum(SHARD_RECORDS)
FORMS = {
    "train": {"form": "train"},
    "train with ids": {"form": "train", "with_ids": True},
    "eval": {"form": "eval"},
    "predict": {"form": "predict"},
}
IMAGE_TYPES = [
    ("uint8", False),
    *((dtype, scale) for dtype in ("float16", "bfloat16", "float32") for scale in (False, True)),
]


def train_ids(loader: Any, records: int, start_step: int = 0) -> list[str]:
    """The ids of the first ``records`` records (rounded up to batches) of a training dataset."""
    _, _, image_ids = collect(loader.dataset(start_step), -(-records // BATCH))
    return ids_of(image_ids)


@pytest.mark.parametrize("target_dtype", ["uint8", "int32"])
@pytest.mark.parametrize(("image_dtype", "scale"), IMAGE_TYPES)
@pytest.mark.parametrize("form", FORMS)
def test_elements_are_what_the_spec_says(
    *, backend: str, shards: Data, form: str, image_dtype: str, scale: bool, target_dtype: str
) -> None:
    loader = open_loader(
        shards.pattern,
        backend,
        image_dtype=image_dtype,
        scale=scale,
        target_dtype=target_dtype,
        id_bytes=40,
        **FORMS[form],
    )
    image = tf.TensorSpec([BATCH, HEIGHT, WIDTH, 3], tf.as_dtype(image_dtype))
    tokens = tf.TensorSpec([BATCH, MAX_LEN], tf.as_dtype(target_dtype))
    ids = tf.TensorSpec([BATCH, 40], tf.uint8)
    valid = tf.TensorSpec([BATCH], tf.bool)
    spec = {
        "train": (image, tokens),
        "train with ids": (image, tokens, ids),
        "eval": (image, tokens, valid),
        "predict": (image, ids, valid),
    }[form]

    assert loader.name == backend
    assert loader.decode
    assert loader.element_spec == spec
    dataset = loader.dataset()
    assert dataset.element_spec == spec
    element = next(iter(dataset))
    assert isinstance(element, tuple)
    assert tuple(tf.TensorSpec(part.shape, part.dtype) for part in element) == spec
    top = float(tf.reduce_max(tf.cast(element[0], tf.float32)))
    assert top == (1.0 if scale else 255.0), "noise of this size has a white pixel"


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("form", ["eval", "predict"])
def test_one_pass_gives_every_record_once_in_full_batches(
    backend: str, shards: Data, form: str, workers: int
) -> None:
    order: list[str] = []
    for worker in range(workers):
        loader = open_loader(
            shards.pattern, backend, form=form, shard_id=worker, num_shards=workers, shuffle="records"
        )
        images, middle, valid = collect(loader.dataset())
        share = valid.sum()
        assert share in (RECORDS // workers, -(-RECORDS // workers))
        assert images.shape == (-(-share // BATCH), BATCH, HEIGHT, WIDTH, 3), "every batch is full"
        # Only the last rows of the last batch are padding.
        assert valid.reshape(-1).tolist() == [True] * share + [False] * (valid.size - share)
        begin = len(order)
        assert (images[valid] == shards.images[begin : begin + share]).all()
        if form == "predict":
            order += ids_of(middle, valid)
        else:
            assert (middle[valid] == shards.codes[begin : begin + share]).all()
            order += shards.ids[begin : begin + share]
    # Planned: shards by name, records in file order, whatever --shuffle says of training.
    assert order == list(shards.ids)


def test_one_pass_of_whole_batches_has_no_padding(backend: str, tmp_path: Path) -> None:
    data = make_data(tmp_path, (20, 12))
    _, image_ids, valid = collect(open_loader(data.pattern, backend, form="predict").dataset())
    assert valid.shape == (2, BATCH)
    assert valid.all()
    assert ids_of(image_ids) == list(data.ids)


def test_one_pass_can_be_made_again(backend: str, shards: Data) -> None:
    dataset = open_loader(shards.pattern, backend, form="predict").dataset()
    first, second = (ids_of(part[1], part[2]) for part in (collect(dataset), collect(dataset)))
    assert first == second == list(shards.ids)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize(
    "order",
    [
        {"shuffle": "none"},
        {"shuffle": "records", "shuffle_buffer": 16},
        {"shuffle": "records", "shuffle_buffer": 1024},
    ],
)
def test_training_is_endless_and_every_epoch_has_every_record_once(
    backend: str, shards: Data, order: dict[str, Any], deterministic: bool
) -> None:
    loader = open_loader(shards.pattern, backend, with_ids=True, deterministic=deterministic, **order)
    ids = train_ids(loader, 5 * RECORDS)
    assert len(ids) >= 5 * RECORDS
    for epoch in range(5):
        assert sorted(ids[epoch * RECORDS : (epoch + 1) * RECORDS]) == sorted(shards.ids), f"epoch {epoch}"


def test_shuffled_training_is_shuffled_anew_in_every_epoch(backend: str, shards: Data) -> None:
    loader = open_loader(shards.pattern, backend, with_ids=True, deterministic=True)
    ids = train_ids(loader, 3 * RECORDS)
    epochs = [ids[epoch * RECORDS : (epoch + 1) * RECORDS] for epoch in range(3)]
    assert all(one != other for one, other in pairwise([list(shards.ids), *epochs]))
    # Records are moved, not batches: neighbours in the file are rarely neighbours in a batch.
    number = {each: place for place, each in enumerate(shards.ids)}
    for epoch in epochs:
        together = sum(number[after] - number[before] == 1 for before, after in pairwise(epoch))
        assert together < RECORDS // 8


def test_a_small_shuffle_window_moves_records_a_little(backend: str, shards: Data) -> None:
    """Shuffled is not sorted, and a window of 16 can't bring the last record to the front."""
    loader = open_loader(shards.pattern, backend, with_ids=True, deterministic=True, shuffle_buffer=16)
    ids = train_ids(loader, RECORDS)[:RECORDS]
    moved_forward = max(shards.ids.index(each) - place for place, each in enumerate(ids))
    assert 0 < moved_forward <= 16


@pytest.mark.parametrize("shuffle", ["none", "records"])
@pytest.mark.parametrize("workers", [2, 3])
def test_sharded_training_gives_every_record_once_over_all_workers(
    backend: str, shards: Data, shuffle: str, workers: int
) -> None:
    once: Counter[str] = Counter()
    for worker in range(workers):
        loader = open_loader(
            shards.pattern, backend, with_ids=True, shuffle=shuffle, shard_id=worker, num_shards=workers
        )
        share = loader.source.plan.records
        ids = train_ids(loader, 2 * share)
        assert sorted(ids[:share]) == sorted(ids[share : 2 * share])
        once.update(ids[:share])
    assert once == Counter(shards.ids)


@pytest.mark.parametrize("shuffle", ["none", "records"])
def test_deterministic_runs_repeat(backend: str, shards: Data, shuffle: str) -> None:
    def run(**changes: Any) -> list[np.ndarray[Any, Any]]:
        loader = open_loader(
            shards.pattern, backend, with_ids=True, deterministic=True, shuffle=shuffle, **changes
        )
        return list(collect(loader.dataset(), 25))

    first, second, other_seed = run(seed=7), run(seed=7), run(seed=8)
    for one, again in zip(first, second, strict=True):
        assert (one == again).all()
    assert (first[2] != other_seed[2]).any() == (shuffle == "records")


def test_the_unshuffled_deterministic_order_is_the_planned_one(backend: str, shards: Data) -> None:
    loader = open_loader(shards.pattern, backend, with_ids=True, deterministic=True, shuffle="none")
    ids = train_ids(loader, 2 * RECORDS + 40)
    assert ids == (list(shards.ids) * 4)[: len(ids)]
    # A batch may hold the end of one epoch and the begin of the next.
    images, tokens, _ = collect(loader.dataset(), 11)
    straddling = slice(10 * BATCH, 11 * BATCH)
    assert (images[10] == np.concatenate([shards.images] * 2)[straddling]).all()
    assert (tokens[10] == np.concatenate([shards.codes] * 2)[straddling]).all()


@pytest.mark.parametrize("start_step", [1, 3, 4, 9, 10, 25])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_later_start_is_the_same_as_skipping(
    backend: str, shards: Data, start_step: int, workers: int
) -> None:
    loader = open_loader(
        shards.pattern,
        backend,
        with_ids=True,
        deterministic=True,
        shuffle="none",
        shard_id=workers - 1,
        num_shards=workers,
    )
    begin = start_step * BATCH
    entered = train_ids(loader, 2 * RECORDS, start_step)
    walked = train_ids(loader, begin + 2 * RECORDS)
    assert entered == walked[begin : begin + len(entered)]


@pytest.mark.parametrize("shuffle", ["records", "batches"])
def test_a_later_start_of_a_shuffled_order(shards: Data, shuffle: str) -> None:
    """What tf.data can and DALI can't."""
    loader = open_loader(shards.pattern, "tfdata", with_ids=True, deterministic=True, shuffle=shuffle)
    walked = train_ids(loader, 400)
    for start_step in (1, 12):
        assert train_ids(loader, 160, start_step) == walked[start_step * BATCH :][:160]


@pytest.mark.parametrize("start_step", [0, 1, 9, 10, 11])
def test_a_later_start_of_one_pass(backend: str, shards: Data, start_step: int) -> None:
    loader = open_loader(shards.pattern, backend, form="predict")
    elements = list(loader.dataset(start_step))
    assert len(elements) == max(0, 10 - start_step)
    left = [each for _, ids, valid in elements for each in ids_of(ids.numpy(), valid.numpy())]
    assert left == list(shards.ids)[start_step * BATCH :]
    assert loader.dataset(start_step).element_spec == loader.element_spec


def test_an_order_that_cannot_be_entered_is_an_error(shards: Data) -> None:
    for shuffle in ("records", "batches", "none"):
        loader = open_loader(shards.pattern, "tfdata", shuffle=shuffle)
        with pytest.raises(ValueError, match="start_step needs --deterministic"):
            loader.dataset(start_step=1)
        loader.dataset(start_step=0)


@pytest.mark.dali
def test_dali_cannot_enter_a_shuffled_order(shards: Data) -> None:
    loader = open_loader(shards.pattern, "dali", shuffle="records", deterministic=True)
    with pytest.raises(
        ValueError, match=r"can't enter a shuffled order at a later step.*--shuffle none or --loader tfdata"
    ):
        loader.dataset(start_step=1)
    loader.dataset(start_step=0)


def test_shuffle_batches_is_the_reference_pipelines_order(shards: Data) -> None:
    """Whole batches are moved, and the remainder of every epoch is dropped."""
    loader = open_loader(shards.pattern, "tfdata", with_ids=True, deterministic=True, shuffle="batches")
    ids = train_ids(loader, 20 * BATCH)
    stored = [shards.ids[begin : begin + BATCH] for begin in range(0, RECORDS - BATCH, BATCH)]
    batches = [tuple(ids[begin : begin + BATCH]) for begin in range(0, len(ids), BATCH)]
    assert set(batches) <= set(stored)
    assert batches[:9] != stored[:9]


@pytest.mark.parametrize("parallel", [0, 1, 3])
def test_tfdatas_parallelism_changes_no_record(shards: Data, parallel: int) -> None:
    loader = open_loader(
        shards.pattern,
        "tfdata",
        with_ids=True,
        shuffle="none",
        cycle_length=2,
        parallel_reads=parallel,
        parallel_calls=parallel,
        parallel_iterations=max(1, parallel),
        prefetch=1,
    )
    assert sorted(train_ids(loader, RECORDS)[:RECORDS]) == sorted(shards.ids)


def test_codes_that_need_int32(backend: str, tmp_path: Path) -> None:
    texts = [[0, 255, 256, 70_000], [2**31 - 1, 1, 0, 0]] * 8
    write_shard(tmp_path / "a", [record(n, {"some_text": text}) for n, text in enumerate(texts)])
    flags: dict[str, Any] = {"num_classes": 2**31, "form": "eval"}
    _, tokens, _ = collect(open_loader(tmp_path, backend, target_dtype="int32", **flags).dataset())
    assert tokens.dtype == np.int32
    assert tokens[0].tolist() == texts
    with pytest.raises(ValueError, match=r"record 0 at byte 0: .* --target-dtype uint8\): 256|uint8\): 256"):
        open_loader(tmp_path, backend, target_dtype="uint8", **flags)


def test_missing_default_gives_zeros_and_no_bytes(tmp_path: Path) -> None:
    absent = {3: ("some_text",), 4: ("image_id",), 6: ("some_text", "image_id")}
    write_shard(tmp_path / "a", [record(n, without=absent.get(n, ())) for n in range(20)])
    with pytest.raises(ValueError, match=r"record 3 at byte \d+: feature 'some_text' is missing"):
        open_loader(tmp_path, "tfdata")

    flags: dict[str, Any] = {"missing": "default", "shuffle": "none", "deterministic": True}
    images, tokens, ids = collect(open_loader(tmp_path, "tfdata", with_ids=True, **flags).dataset(), 1)
    assert (images[0] == [pixels(n) for n in range(BATCH)]).all()
    assert tokens[0].tolist() == [[0] * 4 if n in (3, 6) else codes(n) for n in range(BATCH)]
    assert ids_of(ids) == ["" if n in (4, 6) else image_id(n) for n in range(BATCH)]
    assert not ids[0, 4].any()


def test_missing_default_where_the_element_lacks_nothing(backend: str, tmp_path: Path) -> None:
    """Records without a target are predicted, and such without an id are trained on, by both."""
    names: dict[str, Any] = {"target_feature": "some_text", "id_feature": "image_id", "max_len": MAX_LEN}
    write_shard(tmp_path / "a", [record(n, without=("some_text",)) for n in range(20)])
    flags: dict[str, Any] = {"missing": "default", "height": HEIGHT, "width": WIDTH, **names}
    write_shard(tmp_path / "b", [record(20)])
    _, ids, valid = collect(open_loader(tmp_path, backend, form="predict", **flags).dataset())
    assert ids_of(ids, valid) == [image_id(n) for n in range(21)]

    write_shard(tmp_path / "a", [record(n, without=("image_id",)) for n in range(20)])
    _, tokens, valid = collect(open_loader(tmp_path, backend, form="eval", **flags).dataset())
    assert tokens[valid].tolist() == [codes(n) for n in range(21)]


@pytest.mark.dali
@pytest.mark.parametrize(
    ("absent", "form"),
    [("some_text", "train"), ("some_text", "eval"), ("image_id", "train with ids"), ("image_id", "predict")],
)
def test_dali_refuses_to_fill_in(tmp_path: Path, absent: str, form: str) -> None:
    """It has no default of its own: it gives uninitialised memory."""
    write_shard(tmp_path / "a", [record(n, without=(absent,) if n == 17 else ()) for n in range(20)])
    with pytest.raises(
        ValueError,
        match=r"^--missing default: DALI can't fill in what a record lacks, use --loader tfdata: "
        rf".*a: record 17 at byte \d+: feature '{absent}' is missing",
    ):
        open_loader(tmp_path, "dali", missing="default", **FORMS[form])


def test_ids_are_padded_with_zeros_and_kept_to_the_last_byte(backend: str, tmp_path: Path) -> None:
    wanted = [b"", b"x", "größe-日".encode(), bytes(range(1, 65)), b"\xff" * 64]
    write_shard(tmp_path / "a", [record(n, {"image_id": each}) for n, each in enumerate(wanted)])
    _, ids, valid = collect(open_loader(tmp_path, backend, form="predict").dataset())
    assert [row.tobytes() for row in ids[valid]] == [each.ljust(64, b"\0") for each in wanted]


def test_an_id_that_is_too_long_is_an_error(backend: str, tmp_path: Path) -> None:
    write_shard(tmp_path / "a", [record(n, {"image_id": b"x" * (63 + n)}) for n in range(20)])
    with pytest.raises(
        ValueError, match=r"a: record 2 at byte \d+: .*an id may have 64 bytes \(--id-bytes\): 65"
    ):
        open_loader(tmp_path, backend, form="predict")
    loader = open_loader(tmp_path, backend, form="predict", id_bytes=100)
    _, ids, valid = collect(loader.dataset())
    assert [len(each) for each in ids_of(ids, valid)] == [63 + n for n in range(20)]


def test_records_without_ids(backend: str, tmp_path: Path) -> None:
    write_shard(tmp_path / "a", [record(n, without=("image_id",)) for n in range(20)])
    _, tokens, valid = collect(open_loader(tmp_path, backend, form="eval").dataset())
    assert tokens[valid].tolist() == [codes(n) for n in range(20)]
    for form in ({"form": "predict"}, {"form": "train", "with_ids": True}):
        with pytest.raises(
            ValueError, match=r"the records' id is asked for, but they have none.*--id-feature"
        ):
            open_loader(tmp_path, backend, **form)


@pytest.mark.parametrize(
    ("workers", "words"), [(1, "the 20 records are"), (2, "the 10 records of worker 1 of 2 are")]
)
def test_fewer_records_than_a_batch(backend: str, tmp_path: Path, workers: int, words: str) -> None:
    data = make_data(tmp_path, (11, 9))
    flags: dict[str, Any] = {"batch_size": 32, "shard_id": workers - 1, "num_shards": workers}
    with pytest.raises(
        ValueError, match=f"{words} fewer than one batch of 32, .*: use a smaller --batch-size"
    ):
        open_loader(data.pattern, backend, **flags)
    # One pass fills the batch up.
    _, ids, valid = collect(open_loader(data.pattern, backend, form="predict", **flags).dataset())
    assert valid.shape == (1, 32)
    assert ids_of(ids, valid) == list(data.ids)[-20 // workers :]


def test_more_workers_than_records(backend: str, tmp_path: Path) -> None:
    data = make_data(tmp_path, (2,))
    seen = []
    for worker in range(3):
        flags: dict[str, Any] = {"form": "predict", "shard_id": worker, "num_shards": 3}
        if worker == 0:
            with pytest.raises(
                ValueError, match="there are no records for the share of worker 0 of 3: 2 in all"
            ):
                open_loader(data.pattern, backend, **flags)
            continue
        _, ids, valid = collect(open_loader(data.pattern, backend, **flags).dataset())
        seen += ids_of(ids, valid)
    assert seen == list(data.ids)


def test_a_single_label_and_foreign_names(backend: str, tmp_path: Path) -> None:
    records = [
        record(
            n,
            {
                "image/encoded": encode_png(pixels(n)),
                "image/class/label": [n % 7],
                "image/filename": b"%d.png" % n,
            },
            without=("image", "some_text", "image_id"),
        )
        for n in range(20)
    ]
    write_shard(tmp_path / "a", records)
    _, tokens, valid = collect(open_loader(tmp_path, backend, form="eval").dataset())
    assert tokens[valid].tolist() == [[n % 7] for n in range(20)]
    _, ids, valid = collect(open_loader(tmp_path, backend, form="predict").dataset())
    assert ids_of(ids, valid) == [f"{n}.png" for n in range(20)]


def test_names_of_files_that_are_no_unicode(backend: str, tmp_path: Path) -> None:
    write_shard(tmp_path / os.fsdecode(b"gr\xf6\xdfe [1], 2"), [record(n) for n in range(20)])
    if backend == "dali":
        with pytest.raises(ValueError, match="DALI opens files by UTF-8 names only; use --loader tfdata"):
            open_loader(tmp_path, backend)
        return
    _, ids, valid = collect(open_loader(tmp_path, backend, form="predict").dataset())
    assert ids_of(ids, valid) == [image_id(n) for n in range(20)]


@pytest.mark.parametrize("form", ["train", "eval"])
def test_memory_does_not_grow_from_epoch_1_to_epoch_5(backend: str, tmp_path: Path, form: str) -> None:
    """An evaluation makes a new dataset each time; its first few still widen the process's heap."""
    records, size = 192, 128
    write_shard(
        tmp_path / "a", [record(n, {"image": encode_png(pixels(n, size, size))}) for n in range(records)]
    )
    loader = open_loader(tmp_path, backend, form=form, image_dtype="float32", batch_size=8)
    process = psutil.Process()
    peaks = []
    batches = iter(loader.dataset())
    for _ in range(5):
        if form == "eval":
            batches = iter(loader.dataset())
        peak = 0
        for _ in range(records // 8):
            next(batches)
            peak = max(peak, process.memory_info().rss)
        peaks.append(peak >> 20)
    # A leak of every batch would be four times these, of float32.
    epoch_mib = records * size * size * 3 * 4 >> 20
    assert peaks[4] - peaks[0] < 2 * epoch_mib, peaks


def walk(dataset: Any) -> list[Any]:
    """``dataset`` and everything that it is made of."""
    return [dataset, *(each for source in dataset._inputs() for each in walk(source))]


@pytest.mark.dali
@pytest.mark.parametrize("image_dtype", ["uint8", "bfloat16"])
@pytest.mark.parametrize("form", FORMS)
def test_a_dali_dataset_is_in_what_dali_built(shards: Data, form: str, image_dtype: str) -> None:
    from nvidia.dali.plugin.tf import DALIDataset

    flags: dict[str, Any] = {"image_dtype": image_dtype, **FORMS[form]}
    built = walk(open_loader(shards.pattern, "dali", **flags).dataset())
    assert sum(isinstance(each, DALIDataset) for each in built) == 1
    built = walk(open_loader(shards.pattern, "tfdata", **flags).dataset())
    assert not any(isinstance(each, DALIDataset) for each in built)
    assert len(built) > 3


@pytest.mark.dali
def test_dali_refuses_what_it_cannot_do(shards: Data) -> None:
    with pytest.raises(
        ValueError, match="--shuffle batches: DALI's reader shuffles records, not batches; use --loader tf"
    ):
        open_loader(shards.pattern, "dali", shuffle="batches")
    with pytest.raises(
        ValueError, match="--channels 4: DALI decodes to 1 or 3 channels; use --loader tfdata, or"
    ):
        open_loader(shards.pattern, "dali", channels=4)


def test_four_channels_with_tfdata(tmp_path: Path) -> None:
    rgba = [pixels(n, samples=4) for n in range(20)]
    write_shard(
        tmp_path / "a", [record(n, {"image": encode_png(each, color_type=6)}) for n, each in enumerate(rgba)]
    )
    images, _, valid = collect(open_loader(tmp_path, "tfdata", form="eval", channels=4).dataset())
    assert (images[valid] == rgba).all()


@pytest.mark.dali
class TestIndexFiles:
    """What DALI's reader needs beside every shard."""

    def ids(self, folder: Path | list[Path], **flags: Any) -> list[str]:
        patterns = [str(each) for each in (folder if isinstance(folder, list) else [folder])]
        _, ids, valid = collect(open_loader(patterns, "dali", form="predict", **flags).dataset())
        return ids_of(ids, valid)

    def test_they_are_made_on_first_use_and_used_again(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        data = make_data(tmp_path, (5, 12))
        with caplog.at_level(logging.INFO, "loaders.dali"):
            assert self.ids(tmp_path) == list(data.ids)
        made = [Path(f"{path}.idx") for path in data.paths]
        assert caplog.messages == [
            f"{path}: the index is missing; made anew from the shard ({count} records)"
            for path, count in zip(made, (5, 12), strict=True)
        ]
        assert [len(path.read_text().splitlines()) for path in made] == [5, 12]
        before = [path.stat().st_mtime_ns for path in made]
        caplog.clear()
        with caplog.at_level(logging.INFO, "loaders.dali"):
            assert self.ids(tmp_path) == list(data.ids)
        assert caplog.messages == []
        assert [path.stat().st_mtime_ns for path in made] == before

    @pytest.mark.parametrize("kind", ["empty", "short", "permuted", "another shard's", "no index", "a gap"])
    def test_a_wrong_index_is_made_again(
        self, tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        data = make_data(tmp_path, (20,))
        self.ids(tmp_path)
        path = Path(f"{data.paths[0]}.idx")
        right = path.read_bytes()
        lines = right.splitlines(keepends=True)
        path.write_bytes(
            {
                "empty": b"",
                "short": b"".join(lines[:10]),
                "permuted": b"".join(lines[::-1]),
                "another shard's": right.replace(b"1", b"2"),
                "no index": b"\x00\xffnot at all\n",
                "a gap": b"".join(lines[:5] + lines[6:]),
            }[kind]
        )
        with caplog.at_level(logging.INFO, "loaders.dali"):
            assert self.ids(tmp_path) == list(data.ids)
        words = "can't be read" if kind == "no index" else "is not this shard's"
        assert caplog.messages == [f"{path}: the index {words}; made anew from the shard (20 records)"]
        assert path.read_bytes() == right

    def test_a_rewritten_shard_has_a_new_index(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        data = make_data(tmp_path, (20,))
        self.ids(tmp_path)
        write_shard(data.paths[0], [record(n, {"more": b"x" * (100 * n)}) for n in range(25)])
        later = Path(f"{data.paths[0]}.idx").stat().st_mtime_ns + 10**9
        os.utime(data.paths[0], ns=(later, later))
        with caplog.at_level(logging.INFO, "loaders.dali"):
            assert self.ids(tmp_path) == [image_id(n) for n in range(25)]
        assert "the index is not this shard's (it is older); made anew" in caplog.text

    def test_an_older_index_that_is_right_serves(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        data = make_data(tmp_path, (20,))
        self.ids(tmp_path)
        later = Path(f"{data.paths[0]}.idx").stat().st_mtime_ns + 10**9
        os.utime(data.paths[0], ns=(later, later))
        with caplog.at_level(logging.INFO, "loaders.dali"):
            assert self.ids(tmp_path) == list(data.ids)
        assert caplog.messages == []

    def test_they_lie_in_the_index_folder(self, tmp_path: Path) -> None:
        data = make_data(tmp_path / "data", (5, 12))
        folder = tmp_path / "new" / "indexes"
        assert self.ids(data.folder, index_dir=str(folder)) == list(data.ids)
        assert sorted(os.listdir(folder)) == [f"{path.name}.idx" for path in data.paths]
        assert sorted(os.listdir(data.folder)) == [path.name for path in data.paths]

    def test_shards_of_one_name_in_one_index_folder(self, tmp_path: Path) -> None:
        """Training and held-out shards often have the same names, and their own folders."""
        first, second = make_data(tmp_path / "a", (20,)), make_data(tmp_path / "b", (12,))
        write_shard(second.paths[0], [record(n, {"more": b"longer"}) for n in range(50, 62)])
        flags: dict[str, Any] = {"index_dir": str(tmp_path / "indexes"), "form": "predict"}
        wanted = [list(first.ids), [image_id(n) for n in range(50, 62)]]
        for _ in range(2):
            opened = [open_loader(data.pattern, "dali", **flags) for data in (first, second)]
            parts = [collect(loader.dataset()) for loader in opened]
            assert [ids_of(ids, valid) for _, ids, valid in parts] == wanted
        assert self.ids([first.folder, second.folder], index_dir=flags["index_dir"]) == wanted[0] + wanted[1]

    @pytest.mark.parametrize("there", [False, True])
    def test_a_folder_that_cannot_be_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
    ) -> None:
        import loaders.dali

        data = make_data(tmp_path, (20,))
        path = f"{data.paths[0]}.idx"
        if there:
            Path(path).write_text("0 16\n")

        def refuse(path: str, index: object) -> None:
            # Permissions do not stop root, so the refusal is played.
            raise PermissionError(13, "Permission denied", path)

        real = loaders.dali.write_index
        monkeypatch.setattr(loaders.dali, "write_index", refuse)
        with pytest.raises(ValueError, match="can't be written") as caught:
            self.ids(tmp_path)
        why = "is not this shard's" if there else "is missing"
        assert str(caught.value) == (
            f"{path}: the index {why} and can't be written (Permission denied): "
            "name a folder that can be written with --index-dir"
        )
        # A right one that is there already needs no writing.
        monkeypatch.setattr(loaders.dali, "write_index", real)
        self.ids(tmp_path)
        monkeypatch.setattr(loaders.dali, "write_index", refuse)
        assert self.ids(tmp_path) == list(data.ids)


@pytest.mark.parametrize("package", ["nvidia.dali.plugin.tf", "nvidia.dali"])
def test_dali_that_cannot_be_imported_says_how_to_install_it(
    shards: Data, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, "loaders.dali", raising=False)
    with pytest.raises(
        ValueError, match=r"--loader dali: DALI can't be imported .*`uv sync` installs it.*--loader tfdata"
    ):
        open_loader(shards.pattern, "dali")


def test_a_plugin_built_for_another_tensorflow(shards: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow then says NotFoundError, which is no ImportError."""
    import builtins
    import sys

    real_import = builtins.__import__

    def import_(name: str, *arguments: Any) -> Any:
        if name == "nvidia.dali.plugin.tf":
            raise tf.errors.NotFoundError(
                None, None, "libdali_tf_current.so: undefined symbol: _ZN10tensorflow"
            )
        return real_import(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", import_)
    monkeypatch.delitem(sys.modules, "loaders.dali", raising=False)
    with pytest.raises(ValueError, match=r"--loader dali: DALI can't be imported \(.*undefined symbol"):
        open_loader(shards.pattern, "dali")


@pytest.mark.parametrize(
    ("device", "installed", "chosen", "why"),
    [
        ("cpu", True, "tfdata", "the step runs on the CPU"),
        ("cpu", False, "tfdata", "the step runs on the CPU"),
        ("gpu", False, "tfdata", "DALI is not installed"),
        ("gpu", True, "dali", "DALI is installed and the step runs on a GPU"),
    ],
)
def test_auto_says_what_it_chose(
    *,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    device: Any,
    installed: bool,
    chosen: str,
    why: str,
) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if installed else None)
    with caplog.at_level(logging.INFO, "loaders"):
        assert choose_backend(LoaderConfig(loader="auto", device=device)) == chosen
    assert caplog.messages == [f"loader auto: {chosen}, because {why}"]


def test_auto_makes_the_loader_that_it_chose(shards: Data) -> None:
    loader = open_loader(shards.pattern, "auto")
    assert loader.name == "tfdata"
    assert loader.config.loader == "tfdata"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"batch_size": 0}, "--batch-size must be at least 1: 0"),
        ({"shuffle_buffer": 0}, "--shuffle-buffer must be at least 1: 0"),
        ({"shuffle_batches": -1}, "--shuffle-batches must be at least 1: -1"),
        ({"cycle_length": 0}, "--cycle-length must be at least 1: 0"),
        ({"parallel_iterations": 0}, "--parallel-iterations must be at least 1: 0"),
        ({"parallel_reads": -1}, "--parallel-reads must be at least 0: -1"),
        ({"parallel_calls": -1}, "--parallel-calls must be at least 0: -1"),
        ({"dali_threads": -1}, "--dali-threads must be at least 0: -1"),
        ({"prefetch": 0}, "--prefetch must be at least 1: 0"),
        ({"id_bytes": 0}, "--id-bytes must be at least 1: 0"),
        ({"num_shards": 0}, "--num-shards must be at least 1: 0"),
        ({"seed": -1}, "--seed must be at least 0: -1"),
        ({"max_len": 0}, "--max-len must be at least 1: 0"),
        ({"height": 0}, "--height must be at least 1: 0"),
        ({"width": -3}, "--width must be at least 1: -3"),
        ({"num_classes": 0}, "--num-classes must be at least 1: 0"),
        ({"channels": 2}, "--channels must be 1, 3 or 4: 2"),
        ({"shard_id": 2, "num_shards": 2}, "--shard-id must be below --num-shards 2: 2"),
        ({"scale": True}, "--scale needs --image-dtype float16, bfloat16 or float32: uint8"),
    ],
)
def test_a_wrong_flag_is_named_with_rule_and_value(flags: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=r"^--") as caught:
        config("data", "tfdata", **flags)
    assert str(caught.value) == words


@pytest.mark.gpu
@pytest.mark.dali
class TestOnAGpu:
    """DALI hands its batches over where the step runs."""

    @pytest.mark.parametrize(("image_dtype", "scale"), IMAGE_TYPES)
    def test_training_batches_are_the_same_as_tfdatas(
        self, shards: Data, image_dtype: str, scale: bool
    ) -> None:
        flags: dict[str, Any] = {
            "image_dtype": image_dtype,
            "scale": scale,
            "shuffle": "none",
            "deterministic": True,
            "with_ids": True,
        }
        on_gpu = open_loader(shards.pattern, "auto", device="gpu", **flags)
        assert on_gpu.name == "dali"
        on_cpu = open_loader(shards.pattern, "tfdata", **flags)
        with tf.device("/gpu:0"):
            batches = iter(on_gpu.dataset())
        for expected in on_cpu.dataset().take(12):
            for part, wanted in zip(next(batches), expected, strict=True):
                assert (part.numpy() == wanted.numpy()).all()

    def test_a_batch_lies_on_the_gpu(self, shards: Data) -> None:
        loader = open_loader(shards.pattern, "dali", device="gpu")
        assert "copied to the GPU" in loader.decode
        with tf.device("/gpu:0"):
            image_BHWC, _ = next(iter(loader.dataset()))
        assert "GPU:0" in image_BHWC.device

    def test_one_pass_stays_on_the_host(self, shards: Data) -> None:
        loader = open_loader(shards.pattern, "dali", device="gpu", form="predict")
        _, ids, valid = collect(loader.dataset())
        assert ids_of(ids, valid) == list(shards.ids)
