"""From a record's number to its bytes: everything in it follows from seed, name and number."""

from __future__ import annotations

import io
import zlib
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from PIL import Image

from loaders.spec import Schema
from loaders.writer import encode_record
from tools.dataset.config import DatasetConfig, Style, least_len, rendered_schema
from tools.dataset.fonts import faces_for
from tools.dataset.lettering import place_text
from tools.dataset.record import Record
from tools.dataset.styles import STYLES
from tools.dataset.workers import map_in_order

_CHUNK_PIXELS = 2**19
"""Pixels that a process renders between two looks at its queue: 8 images of 256 x 256, about 0.2 s."""

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """What every record of a set has in common."""

    schema: Schema
    style: Style
    min_len: int
    seed: int
    name: str
    faces: tuple[str, ...]
    """Font files that have every character of the alphabet."""


def recipe_of(config: DatasetConfig) -> Recipe:
    """Errors: ValueError for a character that no font can draw."""
    schema = rendered_schema(config)
    return Recipe(
        schema=schema,
        style=config.style,
        min_len=least_len(config),
        seed=config.seed,
        name=config.name,
        faces=faces_for(schema.alphabet or ""),
    )


def rendered_records(recipe: Recipe, *, records: int, workers: int) -> Generator[Record]:
    """Records 0 to ``records`` - 1 in order, rendered by ``workers`` processes."""
    step = max(1, min(64, _CHUNK_PIXELS // (recipe.schema.height * recipe.schema.width)))
    chunks = [(recipe, first, min(first + step, records)) for first in range(0, records, step)]
    with closing(map_in_order(_render_chunk, chunks, workers=min(workers, len(chunks)))) as rendered:
        for chunk in rendered:
            yield from chunk


def render_record(recipe: Recipe, number: int) -> Record:
    """Record ``number``, the same whoever renders it and whatever was rendered before."""
    schema = recipe.schema
    # The name is part of the seed, so that a held-out set beside has pictures of its own.
    rng = np.random.default_rng([recipe.seed, number, zlib.crc32(recipe.name.encode())])
    codes = rng.integers(1, schema.num_classes, rng.integers(recipe.min_len, schema.max_len + 1)).tolist()
    text = schema.decode_text(codes)
    lettering = place_text(rng, text, faces=recipe.faces, height=schema.height, width=schema.width)
    image = _png(STYLES[recipe.style](rng, lettering).convert(_MODES[schema.channels]))
    image_id = f"{recipe.name}-{number:08d}".encode("ascii")
    example = encode_record(schema, image=image, codes=codes, image_id=image_id)
    return Record(example=example, image_bytes=len(image))


def _render_chunk(task: tuple[Recipe, int, int]) -> list[Record]:
    recipe, first, last = task
    return [render_record(recipe, number) for number in range(first, last)]


def _png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
