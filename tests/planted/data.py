"""The data sets of the planted pipelines: made once, kept in one folder.

``python -m tests.planted.data`` makes all of them and prints the folder.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from loaders.records import frame_record
from loaders.writer import bytes_feature, encode_example, int64_feature

VERSION = 2
"""To be raised when a maker below writes other files."""

MAX_LEN = 8
NUMBER_CODES = 3
"""The first codes of a text are the digits of its record's number, plus 1."""
SHARDS, SHARD_RECORDS = 8, 64
PHOTO_SIDE = 128
LINE_HEIGHT, LINE_WIDTH = 32, 128
SIZES = tuple((40 + 8 * number, 136 - 8 * (5 * number % 12)) for number in range(12))
"""(height, width): as many heights as widths, and no two alike."""
SHEETS, SHEET_SIDE = 16, 512


def root() -> Path:
    """The folder of all data sets: $PLANTED_DATA, else one below the folder for temporary files."""
    named = os.environ.get("PLANTED_DATA")
    return Path(named) if named else Path(tempfile.gettempdir()) / f"feedline-planted-{VERSION}"


def makers() -> Mapping[str, Callable[[Path], None]]:
    """What writes each data set into an empty folder, by the name of the set."""
    ours = {"photos": make_photos, "lines": make_lines, "sizes": make_sizes, "sheets": make_sheets}
    if importlib.util.find_spec("tests.planted.odd_shards") is None:
        return ours
    odd_shards = importlib.import_module("tests.planted.odd_shards")
    return {**ours, **getattr(odd_shards, "MAKERS", {})}


def folder(name: str) -> Path:
    """The folder of the data set ``name``, made now if it isn't there.

    It appears whole or not at all, so that several processes may ask for it at once.
    Errors: ValueError for a name that nothing makes.
    """
    made = root() / name
    if made.is_dir():
        return made
    make = makers().get(name)
    if make is None:
        raise ValueError(f"a data set must be one of {', '.join(makers())}: {name!r}")
    root().mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=root()))
    try:
        make(beside)
        beside.chmod(0o755)
        beside.rename(made)
    except OSError:
        # Another process was faster; a folder that isn't empty can't be replaced.
        if not made.is_dir():
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return made


def make_all() -> Path:
    """Make every data set that is missing, and give the folder of all."""
    for name in makers():
        folder(name)
    return root()


def make_photos(target: Path) -> None:
    """8 shards of 64 photograph-like PNGs, 128x128x3."""
    _write_shards(target, SHARDS, SHARD_RECORDS, "photo", lambda n: photo(n, PHOTO_SIDE, PHOTO_SIDE))


def make_lines(target: Path) -> None:
    """8 shards of 64 PNGs of dark strokes on white, 32x128x3: a tenth of a photograph's bytes."""
    _write_shards(target, SHARDS, SHARD_RECORDS, "line", line)


def make_sizes(target: Path) -> None:
    """4 shards of 48 photograph-like PNGs of twelve sizes in turn."""
    _write_shards(target, 4, 48, "size", lambda n: photo(n, *SIZES[n % len(SIZES)]))


def make_sheets(target: Path) -> None:
    """16 PNG files of 512x512x3, to be cut into tiles."""
    for number in range(SHEETS):
        path = target / f"sheet-{number:02d}.png"
        path.write_bytes(encode_png(photo(number, SHEET_SIDE, SHEET_SIDE)))


def photo(number: int, height: int, width: int) -> NDArray[np.uint8]:
    """uint8 [H, W, 3]: smooth patches of colour under a sensor's noise, this number's own."""
    random = np.random.default_rng(number)
    coarse = Image.fromarray(random.integers(0, 256, (9, 9, 3), np.uint8))
    smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), np.int16)
    noise = random.integers(-4, 5, (height, width, 3), np.int16)
    return np.clip(smooth + noise, 0, 255).astype(np.uint8)


def line(number: int) -> NDArray[np.uint8]:
    """uint8 [32, 128, 3]: a few dark strokes on white, this number's own."""
    random = np.random.default_rng(number)
    pixels = np.full((LINE_HEIGHT, LINE_WIDTH, 3), 250, np.uint8)
    for x in random.integers(4, LINE_WIDTH - 4, 24):
        top, stroke_height = random.integers(2, 16), random.integers(4, 16)
        pixels[top : top + stroke_height, x : x + 2] = random.integers(0, 90)
    return pixels


def text(number: int) -> list[int]:
    """3 to 8 codes from 1 to 10, longer ones ever rarer, padded with zeros to 8."""
    random = np.random.default_rng(number)
    digits = [int(digit) + 1 for digit in f"{number:0{NUMBER_CODES}d}"]
    more = random.integers(1, 11, min(MAX_LEN - NUMBER_CODES, int(random.geometric(0.5)) - 1)).tolist()
    codes = [*digits, *more]
    return [*codes, *[0] * (MAX_LEN - len(codes))]


def encode_png(pixels_HWC: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels_HWC).save(file, "PNG", compress_level=2)
    return file.getvalue()


def record(number: int, name: str, image: bytes) -> bytes:
    """The serialized Example of one PNG."""
    features = {
        "image": bytes_feature([image]),
        "some_text": int64_feature(text(number)),
        "image_id": bytes_feature([f"{name}-{number:04d}".encode()]),
    }
    return encode_example(features)


def write_shard(path: Path, records: Iterable[bytes]) -> Path:
    path.write_bytes(b"".join(frame_record(each) for each in records))
    return path


def _write_shards(
    target: Path, shards: int, shard_records: int, name: str, pixels: Callable[[int], NDArray[np.uint8]]
) -> None:
    for shard in range(shards):
        numbers = range(shard * shard_records, (shard + 1) * shard_records)
        path = target / f"train-{shard:05d}-of-{shards:05d}.tfrecord"
        write_shard(path, (record(number, name, encode_png(pixels(number))) for number in numbers))


if __name__ == "__main__":
    print(make_all())
