"""A user's own folder of PNG files as records, each file byte for byte."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loaders.png import PngHeader, check_png, read_header
from loaders.spec import Schema
from loaders.writer import encode_record
from tools.dataset.config import DatasetConfig
from tools.dataset.labels import Label, read_labels
from tools.dataset.record import Record

log = logging.getLogger(__name__)

_HEADER_BYTES = 33
_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 4, 6: 4}
"""Colour type to the channels that show all of it; a palette decodes to RGB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Folder:
    """A folder whose labels and image headers were read and found good."""

    folder: Path
    labels: tuple[Label, ...]
    schema: Schema


def read_folder(config: DatasetConfig) -> Folder:
    """Read the labels and the first bytes of every image, and find out their schema.

    Errors: ValueError that names the file and line: an image that is missing, no PNG or
    of another size than the rest, a text that is too long or has other characters than
    --alphabet, fewer records than --shards; OSError.
    """
    folder = config.from_folder
    if folder is None or not folder.is_dir():
        raise ValueError(f"--from-folder must be a folder: '{folder}'")
    labels = read_labels(config.labels or folder / "labels.csv")
    if config.shards is not None and config.shards > len(labels):
        raise ValueError(f"--shards must be at most the number of records, {len(labels)}: {config.shards}")
    alphabet = _alphabet(config, labels)
    height, width, channels = _image_shape(config, folder, labels)
    schema = Schema(
        image_feature=config.image_feature,
        target_feature=config.target_feature,
        id_feature=config.id_feature,
        max_len=_max_len(config, labels),
        height=height,
        width=width,
        channels=channels,
        num_classes=len(alphabet) + 1,
        alphabet=alphabet,
    )
    return Folder(folder=folder, labels=tuple(labels), schema=schema)


def packed_records(folder: Folder) -> Generator[Record]:
    """The records in the labels' order.

    Errors: ValueError that names the line of an image that is damaged, or that changed
    since the folder was read; OSError.
    """
    schema = folder.schema
    codes = {character: code for code, character in enumerate(schema.alphabet or "", start=1)}
    for label in folder.labels:
        image = (folder.folder / label.name).read_bytes()
        header = _header(image, label)
        if (header.height, header.width) != (schema.height, schema.width):
            raise ValueError(f"{label.place}: {label.name!r} changed while it was packed")
        try:
            check_png(image, header)
        except ValueError as error:
            raise ValueError(f"{label.place}: {label.name!r} {error}") from None
        example = encode_record(
            schema,
            image=image,
            codes=[codes[character] for character in label.text],
            image_id=label.name.encode("utf-8"),
        )
        yield Record(example=example, image_bytes=len(image))


def _alphabet(config: DatasetConfig, labels: Sequence[Label]) -> str:
    used = {character for label in labels for character in label.text}
    if config.alphabet is None:
        if not used:
            raise ValueError(
                f"{labels[0].place} and all others have an empty text: there is nothing to learn"
            )
        return "".join(sorted(used))
    for label in labels:
        strange = next((character for character in label.text if character not in config.alphabet), None)
        if strange is not None:
            raise ValueError(f"{label.place}: character {strange!r} is not in --alphabet {config.alphabet!r}")
    return config.alphabet


def _max_len(config: DatasetConfig, labels: Sequence[Label]) -> int:
    longest = max(labels, key=lambda label: len(label.text))
    if config.max_len is None:
        return max(1, len(longest.text))
    if len(longest.text) > config.max_len:
        raise ValueError(
            f"{longest.place}: the text must have at most --max-len {config.max_len} characters "
            f"and has {len(longest.text)}: {longest.text!r}"
        )
    return config.max_len


def _image_shape(config: DatasetConfig, folder: Path, labels: Sequence[Label]) -> tuple[int, int, int]:
    """Height, width and channels that all images share; flags that were given must agree."""
    shape, source = (config.height, config.width, config.channels), "the flags say"
    deep = 0
    for label in labels:
        header = _header(_first_bytes(folder, label), label)
        deep += header.bit_depth == 16
        # Colours can be converted on decoding, sizes cannot: --channels overrules the file.
        found = (header.height, header.width, config.channels or _CHANNELS[header.color_type])
        if any(wanted is not None and wanted != value for wanted, value in zip(shape, found, strict=True)):
            raise ValueError(
                f"{label.place}: {label.name!r} is {_words(found)}, not {_words(shape)} as {source}"
            )
        if None in shape:
            shape, source = found, f"{label.name!r}"
    if deep:
        log.warning("%d images have 16 bits a channel; decoders reduce them to 8", deep)
    return found


def _first_bytes(folder: Path, label: Label) -> bytes:
    try:
        with open(folder / label.name, "rb") as file:
            return file.read(_HEADER_BYTES)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise ValueError(f"{label.place}: there is no file {label.name!r} in '{folder}'") from None


def _header(data: bytes, label: Label) -> PngHeader:
    try:
        return read_header(data)
    except ValueError as error:
        raise ValueError(f"{label.place}: {label.name!r} {error}") from None


def _words(shape: tuple[int | None, int | None, int | None]) -> str:
    height, width, channels = ("any" if value is None else value for value in shape)
    return f"{height} x {width} pixels with {channels} channels"
