"""How a text looks: ink on scanned paper, or letters in a photograph.

Colours are chosen so that ink and ground always differ enough to be read.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from tools.dataset.lettering import Lettering

Color = tuple[int, int, int]
Pixels = NDArray[np.float32]
"""float32 [H, W, 3], from 0 to 255."""


def scanned_line(rng: np.random.Generator, lettering: Lettering) -> Image.Image:
    """Ink on plain or ruled paper; one in six is light on dark, as on a slide."""
    paper, ink = _color(rng, 208, 256), _color(rng, 0, 96)
    if rng.random() < 1 / 6:
        paper, ink = ink, paper
    image = Image.new("RGB", lettering.ink.size, paper)
    if rng.random() < 1 / 3:
        _rule(rng, image, paper, ink)
    image.paste(ink, mask=lettering.ink)
    if rng.random() < 1 / 2:
        image = _shade_down(rng, image)
    return image


def street_photo(rng: np.random.Generator, lettering: Lettering) -> Image.Image:
    """Letters, on a sign in half of the cases, in front of blurred shapes; uneven light, grain."""
    night = rng.random() < 1 / 2
    ground, ink = ((24, 112), (208, 256)) if night else ((136, 224), (0, 56))
    image = _scenery(rng, lettering.ink.size, ground)
    if rng.random() < 1 / 2:
        _hang_sign(rng, image, lettering, _color(rng, *ground))
    image.paste(_color(rng, *ink), mask=lettering.ink)
    if min(image.size) >= 64:
        image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.0, 0.8)))
    lit = np.asarray(image, np.float32) * _light(rng, image.size)
    grainy = lit + rng.uniform(*_GRAIN) * rng.standard_normal(lit.shape, np.float32)
    return Image.fromarray(np.clip(np.rint(grainy), 0, 255).astype(np.uint8))


STYLES: dict[str, Callable[[np.random.Generator, Lettering], Image.Image]] = {
    "line": scanned_line,
    "photo": street_photo,
}

_GRAIN = (2.2, 3.4)
"""Standard deviation of the grain: the PNG takes half a byte a pixel and channel, as a sharp photograph's."""


def _color(rng: np.random.Generator, low: int, high: int) -> Color:
    red, green, blue = (int(value) for value in rng.integers(low, high, 3))
    return red, green, blue


def _muted(color: Color) -> Color:
    """``color`` half way to the grey of its brightness."""
    grey = sum(color) // 3
    red, green, blue = ((value + grey) // 2 for value in color)
    return red, green, blue


def _rule(rng: np.random.Generator, image: Image.Image, paper: Color, ink: Color) -> None:
    """Draw the lines of an exercise book, a quarter of the way from paper to ink."""
    red, green, blue = ((3 * light + dark) // 4 for light, dark in zip(paper, ink, strict=True))
    draw = ImageDraw.Draw(image)
    spacing = max(6, int(image.height * rng.uniform(0.1, 0.3)))
    for y in range(int(rng.integers(spacing)), image.height, spacing):
        draw.line([(0, y), (image.width, y)], fill=(red, green, blue))


def _shade_down(rng: np.random.Generator, image: Image.Image) -> Image.Image:
    """Let the light fall off towards the lower edge, as beside a book's fold."""
    rows = np.linspace(1.0, rng.uniform(0.8, 0.95), image.height, dtype=np.float32)
    shaded = np.asarray(image, np.float32) * rows[:, None, None]
    return Image.fromarray(np.rint(shaded).astype(np.uint8))


def _scenery(rng: np.random.Generator, size: tuple[int, int], ground: tuple[int, int]) -> Image.Image:
    """Soft colours at two scales and a few out-of-focus shapes, all within ``ground``."""
    coarse, fine = (_soft_noise(rng, size, cells, ground) for cells in (3, 12))
    image = Image.blend(coarse, fine, 0.25)
    shapes = image.copy()
    draw = ImageDraw.Draw(shapes)
    for _ in range(int(rng.integers(2, 7))):
        corners = rng.uniform(-0.1, 1.1, (4, 2)) * size
        draw.polygon([(float(x), float(y)) for x, y in corners], fill=_muted(_color(rng, *ground)))
    shapes = shapes.filter(ImageFilter.GaussianBlur(min(size) / 50))
    return Image.blend(image, shapes, rng.uniform(0.3, 0.7))


def _soft_noise(
    rng: np.random.Generator, size: tuple[int, int], cells: int, ground: tuple[int, int]
) -> Image.Image:
    """Blurred spots within ``ground``: three parts brightness, one part colour, as in most of the world."""
    brightness = rng.integers(*ground, (cells, cells, 1))
    color = rng.integers(*ground, (cells, cells, 3))
    spots = ((3 * brightness + color) // 4).astype(np.uint8)
    return Image.fromarray(spots).resize(size, Image.Resampling.BICUBIC)


def _hang_sign(rng: np.random.Generator, image: Image.Image, lettering: Lettering, color: Color) -> None:
    """Paint a board behind the letters, a little larger than they are, with a soft shadow."""
    border = max(1, min(image.size) // 64)
    # A blur whose soft edge is made solid grows a shape, at a tenth of a maximum filter's time.
    board = lettering.plate.filter(ImageFilter.GaussianBlur(border)).point(lambda value: min(255, 6 * value))
    shadow = Image.new("L", image.size, 0)
    shadow.paste(102, (border, border), board)
    image.paste((0, 0, 0), mask=shadow.filter(ImageFilter.GaussianBlur(border)))
    image.paste(color, mask=board)


def _light(rng: np.random.Generator, size: tuple[int, int]) -> Pixels:
    """Brighter on one side than on the other: factors, float32 [H, W, 1]."""
    width, height = size
    across, down = rng.uniform(-0.12, 0.12, 2)
    x = np.linspace(-1, 1, width, dtype=np.float32) * np.float32(across)
    y = np.linspace(-1, 1, height, dtype=np.float32) * np.float32(down)
    return (1 + x[None, :] + y[:, None])[:, :, None]
