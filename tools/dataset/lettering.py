"""Where a text stands on its image, and in which letters."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, radians, sin

import numpy as np
from PIL import Image, ImageDraw

from tools.dataset import fonts

_MEASURED_SIZE = 64.0
_MARGIN = 1 / 16
"""Paper on each side of a text, as a share of the letters' size."""
_MOST_DEGREES = 3.0
_CAPITALS = 0.7
"""Height of a capital, as a share of the letters' size."""
_FARTHEST_ACROSS, _FARTHEST_DOWN = 0.06, 0.2
"""How far from the middle a text may stand, as a share of the image: a small network must be able to learn
it from a few thousand records."""
_SMALLEST_SHARE = 0.8
"""The largest size that fits times this is the smallest size drawn, ..."""
_SMALLEST_SIZE = 10.0
"""... unless that is smaller than this, in pixels, where letters begin to run together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Lettering:
    """A text as two masks of the image's size; 255 is covered, 0 is not."""

    ink: Image.Image
    """The strokes of the letters."""
    plate: Image.Image
    """The slanted box around them."""


def place_text(
    rng: np.random.Generator, text: str, *, faces: tuple[str, ...], height: int, width: int
) -> Lettering:
    """Set ``text`` in one of ``faces``, at a size, slant and place that keep it whole on the image."""
    face = faces[rng.integers(len(faces))]
    angle = rng.uniform(-_MOST_DEGREES, _MOST_DEGREES)
    largest = _largest_size(face, text, angle, height=height, width=width)
    size = rng.uniform(min(largest, max(_SMALLEST_SIZE, _SMALLEST_SHARE * largest)), largest)
    ink = _draw(text, face, size)
    plate = Image.new("L", ink.size, 255)
    ink, plate = (mask.rotate(angle, Image.Resampling.BICUBIC, expand=True) for mask in (ink, plate))
    for mask in (ink, plate):
        # Letters do not grow evenly: hinted to whole pixels, small ones can be wider than measured.
        mask.thumbnail((width, height))
    left = _place(rng, width, ink.width, _FARTHEST_ACROSS)
    top = _place(rng, height, ink.height, _FARTHEST_DOWN)
    ink, plate = (_onto_canvas(mask, left, top, height=height, width=width) for mask in (ink, plate))
    return Lettering(ink=ink, plate=plate)


def _largest_size(face: str, text: str, angle: float, *, height: int, width: int) -> float:
    """The size in pixels at which the slanted box of ``text`` just fits."""
    text_width, text_height = _extent(face, text, _MEASURED_SIZE)
    slant = abs(radians(angle))
    slanted_width = text_width * cos(slant) + text_height * sin(slant)
    slanted_height = text_width * sin(slant) + text_height * cos(slant)
    # Two pixels on each side: the hinting of small sizes and the rotation's soft edge.
    return _MEASURED_SIZE * min((width - 4) / slanted_width, (height - 4) / slanted_height)


def _extent(face: str, text: str, size: float) -> tuple[float, float]:
    """Width and height of the text with its margins, in pixels; '..' is as high as a capital."""
    font = fonts.load(face, size)
    left, top, right, bottom = font.getbbox(text)
    margins = 2 * _MARGIN * size
    return right - left + margins, max(bottom - top, _CAPITALS * size) + margins


def _draw(text: str, face: str, size: float) -> Image.Image:
    """The upright text on the smallest mask that holds it and its margins."""
    font = fonts.load(face, size)
    left, top, right, bottom = font.getbbox(text)
    margin = max(1, round(_MARGIN * size))
    mask = Image.new("L", (round(right - left) + 2 * margin, round(bottom - top) + 2 * margin), 0)
    ImageDraw.Draw(mask).text((margin - left, margin - top), text, fill=255, font=font)
    return mask


def _place(rng: np.random.Generator, room: int, taken: int, farthest: float) -> int:
    """Where a text that takes ``taken`` of ``room`` pixels begins: moved off the middle by a share of it."""
    free = (room - taken) / 2
    away = min(free, farthest * room)
    return round(free + rng.uniform(-away, away))


def _onto_canvas(mask: Image.Image, left: int, top: int, *, height: int, width: int) -> Image.Image:
    canvas = Image.new("L", (width, height), 0)
    canvas.paste(mask, (left, top))
    return canvas
