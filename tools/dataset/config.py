"""What a data set is made of: the flags of tools/make_dataset.py."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from loaders.spec import Schema

Style = Literal["line", "photo"]

DIGITS_AND_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

MAX_ID_BYTES = 64
"""Ids come to a training step as vectors of this many bytes."""

_RENDERED_ONLY = ("style", "records", "min_len", "seed", "workers")
_SHARDS = 4
_LEAST_HEIGHT = 12
_LEAST_WIDTH_A_CHARACTER = 6
"""Pixels below which a text cannot be read, whatever the font."""


def _default(words: str, metavar: str) -> Any:
    """A flag whose default depends on others: ``words`` say how, in the help."""
    return arg(metavar=metavar, help_behavior_hint=f"(default: {words})")


@dataclass(frozen=True, kw_only=True, slots=True)
class DatasetConfig:
    """All that decides what a data set holds and where it lies. Every field is a flag.

    Errors: ValueError that names the flag, the rule and the value.
    """

    out: Positional[Path]
    """Folder for the shards, their indexes and dataset.json; it is made if need be."""
    name: str = "train"
    """What the shards' names begin with; two sets of one schema may share a folder under different names."""
    shards: Annotated[int | None, _default("4, or one a record if there are fewer", "INT")] = None
    """Shards to split the records into."""
    overwrite: bool = False
    """Replace the set of this name that OUT holds."""

    records: int = 2048
    """Records to render."""
    style: Style = "line"
    """line: ink on paper, a few KB a PNG; photo: text over what a camera sees, about half a byte a pixel
    and channel (100 KB at 256 x 256 x 3)."""
    seed: int = 0
    """The same seed and name give the same records."""
    workers: Annotated[int | None, _default("every core", "INT")] = None
    """Processes that render."""

    height: Annotated[int | None, _default("256, or the images' own", "INT")] = None
    """Height of every image, pixels."""
    width: Annotated[int | None, _default("256, or the images' own", "INT")] = None
    """Width of every image, pixels."""
    channels: Annotated[int | None, _default("3, or the images' own", "1|3|4")] = None
    """Channels of every image: 1 grey, 3 RGB, 4 RGBA."""
    max_len: Annotated[int | None, _default("16, or the longest text", "INT")] = None
    """Characters that a text may have; every record stores so many codes, padded with 0."""
    min_len: Annotated[int | None, _default("half of max-len", "INT")] = None
    """Characters that a rendered text has at least."""
    alphabet: Annotated[str | None, _default("digits and letters, or those in the texts", "STR")] = None
    """Characters of the texts; the first has the code 1."""

    from_folder: Annotated[Path | None, _default("render instead", "DIR")] = None
    """Pack the PNG files of this folder, byte for byte, instead of rendering some."""
    labels: Annotated[Path | None, _default("labels.csv in that folder", "FILE")] = None
    """CSV file in UTF-8 with two columns, file name and text, for --from-folder."""

    image_feature: str = "image"
    """Feature for the PNG."""
    target_feature: str = "some_text"
    """Feature for the codes of the text."""
    id_feature: str = "image_id"
    """Feature for the record's id: its name and number, or the file's name."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,49}", self.name):
            raise ValueError(f"--name must be up to 50 letters, digits and '_.-': {self.name!r}")
        if self.shards is not None and self.shards > 99_999:
            raise ValueError(f"--shards must be at most 99999: {self.shards}")
        _check_at_least(self, "seed", 0)
        for field in ("shards", "records", "workers", "height", "width", "max_len", "min_len"):
            _check_at_least(self, field, 1)
        if self.channels not in (None, 1, 3, 4):
            raise ValueError(f"--channels must be 1, 3 or 4: {self.channels}")
        if self.alphabet is not None and (not self.alphabet or len(set(self.alphabet)) < len(self.alphabet)):
            raise ValueError(f"--alphabet must be at least one character, each once: {self.alphabet!r}")
        names = [self.image_feature, self.target_feature, self.id_feature]
        if len(set(names)) < len(names) or "" in names:
            raise ValueError(
                f"--image-feature, --target-feature and --id-feature must be three names: {names}"
            )
        if self.from_folder is None:
            _check_rendered(self)
        else:
            _check_packed(self)


def rendered_schema(config: DatasetConfig) -> Schema:
    """The schema of a rendered set, every flag that was left out at its default."""
    alphabet = DIGITS_AND_LETTERS if config.alphabet is None else config.alphabet
    return Schema(
        image_feature=config.image_feature,
        target_feature=config.target_feature,
        id_feature=config.id_feature,
        max_len=config.max_len or 16,
        height=config.height or 256,
        width=config.width or 256,
        channels=config.channels or 3,
        num_classes=len(alphabet) + 1,
        alphabet=alphabet,
    )


def shards_for(config: DatasetConfig, records: int) -> int:
    """Shards that so many records are split into."""
    return min(_SHARDS, records) if config.shards is None else config.shards


def least_len(config: DatasetConfig) -> int:
    """Characters that a rendered text has at least."""
    return config.min_len or max(1, rendered_schema(config).max_len // 2)


def _check_rendered(config: DatasetConfig) -> None:
    if config.labels is not None:
        raise ValueError(f"--labels needs --from-folder: '{config.labels}'")
    if config.shards is not None and config.shards > config.records:
        raise ValueError(f"--shards must be at most the number of records, {config.records}: {config.shards}")
    schema = rendered_schema(config)
    if least_len(config) > schema.max_len:
        raise ValueError(f"--min-len must be at most --max-len {schema.max_len}: {config.min_len}")
    if schema.height < _LEAST_HEIGHT:
        raise ValueError(f"--height must be at least {_LEAST_HEIGHT} pixels to read a text: {schema.height}")
    width = _LEAST_WIDTH_A_CHARACTER * schema.max_len
    if schema.width < width:
        raise ValueError(
            f"--width must be at least {width} pixels to read {schema.max_len} characters: {schema.width}"
        )


def _check_packed(config: DatasetConfig) -> None:
    defaults = {field.name: field.default for field in fields(config)}
    for name in _RENDERED_ONLY:
        value = getattr(config, name)
        if value != defaults[name]:
            raise ValueError(
                f"--{name.replace('_', '-')} is for rendered texts, not for --from-folder: {value}"
            )


def _check_at_least(config: DatasetConfig, field: str, least: int) -> None:
    value = getattr(config, field)
    if value is not None and value < least:
        raise ValueError(f"--{field.replace('_', '-')} must be at least {least}: {value}")
