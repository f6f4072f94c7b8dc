"""Both backends, bit for bit: the same records, ids, tokens and pixels in the same order.

Shapes: H height, W width, S samples a pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from loaders.png import check_png, read_header
from tests.data import HEIGHT, WIDTH, Data, collect, open_loader, pixels, record, write_shard
from tests.pngs import encode_png, mutate_png, odd_pngs

pytestmark = pytest.mark.dali

IMAGE_TYPES = [
    ("uint8", False),
    *((dtype, scale) for dtype in ("float16", "bfloat16", "float32") for scale in (False, True)),
]


def both(
    data: Path | str, batches: int | None = None, **flags: Any
) -> list[tuple[np.ndarray[Any, Any], ...]]:
    """The parts of the elements that tfdata and dali give."""
    return [collect(open_loader(data, backend, **flags).dataset(), batches) for backend in ("tfdata", "dali")]


def assert_equal_bits(first: Sequence[np.ndarray[Any, Any]], second: Sequence[np.ndarray[Any, Any]]) -> None:
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        # Bytes, because equal numbers may have different bits (-0.0) and NaN is not itself.
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("target_dtype", ["uint8", "int32"])
@pytest.mark.parametrize(("image_dtype", "scale"), IMAGE_TYPES)
def test_training_over_more_than_one_epoch(
    shards: Data, image_dtype: str, scale: bool, target_dtype: str
) -> None:
    tfdata, dali = both(
        shards.pattern,
        25,
        image_dtype=image_dtype,
        scale=scale,
        target_dtype=target_dtype,
        shuffle="none",
        deterministic=True,
        with_ids=True,
    )
    assert_equal_bits(tfdata, dali)
    # And they are right: the stored pixels, cast by numpy.
    wanted = np.concatenate([shards.images] * 3)[: 25 * 16].reshape(tfdata[0].shape)
    if scale:
        wanted = wanted.astype(np.float32) / np.float32(255)
    assert tfdata[0].tobytes() == wanted.astype(tf.as_dtype(image_dtype).as_numpy_dtype).tobytes()
    assert (tfdata[1] == np.concatenate([shards.codes] * 3)[: 25 * 16].reshape(tfdata[1].shape)).all()


@pytest.mark.parametrize(("image_dtype", "scale"), IMAGE_TYPES)
@pytest.mark.parametrize("form", ["eval", "predict"])
def test_one_pass(shards: Data, form: str, image_dtype: str, scale: bool) -> None:
    tfdata, dali = both(shards.pattern, form=form, image_dtype=image_dtype, scale=scale)
    valid = tfdata[2]
    assert valid.sum() == len(shards.ids)
    assert_equal_bits([part[valid] for part in tfdata], [part[valid] for part in dali])
    assert_equal_bits([valid], [dali[2]])


@pytest.mark.parametrize("workers", [2, 3])
def test_sharded(shards: Data, workers: int) -> None:
    for worker in range(workers):
        share: dict[str, Any] = {"shard_id": worker, "num_shards": workers}
        assert_equal_bits(
            *both(shards.pattern, 12, shuffle="none", deterministic=True, with_ids=True, **share)
        )
        tfdata, dali = both(shards.pattern, form="predict", **share)
        valid = tfdata[2]
        assert_equal_bits([part[valid] for part in tfdata], [part[valid] for part in dali])


def test_a_later_start(shards: Data) -> None:
    flags: dict[str, Any] = {"shuffle": "none", "deterministic": True, "with_ids": True}
    loaders = [open_loader(shards.pattern, backend, **flags) for backend in ("tfdata", "dali")]
    for step in (1, 9, 10, 30):
        assert_equal_bits(*(collect(loader.dataset(step), 12) for loader in loaders))


def test_every_value_of_a_pixel(tmp_path: Path) -> None:
    """All 256, so that no rounding of a cast or a division goes unseen."""
    every = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
    write_shard(tmp_path / "a", [record(0, {"image": encode_png(every)})] * 16)
    for image_dtype, scale in IMAGE_TYPES:
        tfdata, dali = both(tmp_path, 1, image_dtype=image_dtype, scale=scale, shuffle="none")
        assert_equal_bits(tfdata, dali)
        assert len(np.unique(tfdata[0].astype(np.float32))) == 256 or image_dtype == "bfloat16"


@pytest.mark.parametrize("channels", [1, 3])
def test_every_kind_of_png(tmp_path: Path, channels: int) -> None:
    """Grey, RGB, palette and alpha, 1 to 8 bits, with and without interlacing, all filters."""
    pngs = odd_pngs(HEIGHT, WIDTH)
    assert len(pngs) == 22
    write_shard(tmp_path / "a", [record(n, {"image": png}) for n, png in enumerate(pngs.values())])
    tfdata, dali = both(tmp_path, form="eval", channels=channels)
    valid = tfdata[2]
    for name, one, other in zip(pngs, tfdata[0][valid], dali[0][valid], strict=True):
        assert (one == other).all(), name
        assert (one == tf.io.decode_png(pngs[name], channels=channels).numpy()).all(), name


def test_one_channel_of_grey_pngs_is_what_was_stored(tmp_path: Path) -> None:
    grey = [pixels(n, samples=1) for n in range(20)]
    write_shard(
        tmp_path / "a",
        [record(n, {"image": encode_png(each, color_type=0)}) for n, each in enumerate(grey)],
    )
    for images, _, valid in both(tmp_path, form="eval", channels=1):
        assert images.shape == (2, 16, HEIGHT, WIDTH, 1)
        assert (images[valid] == grey).all()


def test_what_the_check_accepts_both_decode_to_the_same(tmp_path: Path) -> None:
    """Damaged files that pass the check: DALI must not fail on one, for its pipeline would be dead."""
    accepted = []
    for seed in range(4000):
        kind = (2, 2, 0, 3, 4, 6)[seed % 6]
        samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
        palette = Random(seed).randbytes(768) if kind == 3 else b""
        sound = encode_png(pixels(seed % 20, 8, 10, samples), color_type=kind, palette=palette, idat_bytes=90)
        png = mutate_png(sound, Random(seed))
        try:
            header = read_header(png)
            check_png(png, header)
        except ValueError:
            continue
        if (header.height, header.width) == (8, 10):
            accepted.append(png)
    assert len(accepted) > 400
    write_shard(tmp_path / "a", [record(n, {"image": png}) for n, png in enumerate(accepted)])
    tfdata, dali = both(tmp_path, form="eval")
    valid = tfdata[2]
    assert valid.sum() == len(accepted)
    assert_equal_bits([part[valid] for part in tfdata], [part[valid] for part in dali])
