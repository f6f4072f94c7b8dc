"""The proof of equality as a picture: one batch of each loader, and their difference.

Shapes: B batch, H height, W width, C channels.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

_IMAGES = 8
"""Images of the batch that are drawn, side by side."""
_SIDE_PIXELS = 128
"""Longer sides are shrunk to this."""


def draw_proof(names: Sequence[str], images_BHWC: Sequence[Any]) -> list[dict[str, str]]:
    """A picture of the first images of each loader's batch, and one of the largest difference from the
    first loader's: black where all are equal. Each is {name, png}, the PNG in base64."""
    bytes_BHWC = [_as_bytes(images[:_IMAGES]) for images in images_BHWC]
    pictures = [{"name": name, "png": _png(images)} for name, images in zip(names, bytes_BHWC, strict=True)]
    if len(bytes_BHWC) > 1:
        gaps = [np.abs(images.astype(np.int16) - bytes_BHWC[0]) for images in bytes_BHWC[1:]]
        # Any difference at all is drawn bright: one level of 255 would not be seen.
        largest = np.max(gaps, axis=0)
        pictures.append(
            {
                "name": "difference",
                "png": _png(np.where(largest > 0, 255, 0).astype(np.uint8), keep_largest=True),
            }
        )
    return pictures


def _as_bytes(images_BHWC: Any) -> Any:
    """uint8 pixels from any of the image types, scaled or not."""
    if images_BHWC.dtype == np.uint8:
        return images_BHWC
    values = images_BHWC.astype(np.float32)
    if values.max(initial=0.0) <= 1.0:
        values = values * 255
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def _png(images_BHWC: Any, *, keep_largest: bool = False) -> str:
    """The images side by side, their sides shrunk to at most ``_SIDE_PIXELS``.

    With ``keep_largest`` a shrunk pixel is the largest it stands for: one different pixel stays seen.
    """
    block = -(-max(images_BHWC.shape[1:3]) // _SIDE_PIXELS)
    strip = np.concatenate(list(images_BHWC), axis=1)
    if block > 1:
        strip = _shrink(strip, block, np.max if keep_largest else np.mean)
    buffer = io.BytesIO()
    Image.fromarray(strip[..., 0] if strip.shape[-1] == 1 else strip).save(buffer, "png", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _shrink(image_HWC: Any, block: int, summary: Any) -> Any:
    """uint8 pixels, each the ``summary`` of a block; the edge repeats to fill the last blocks."""
    height, width, channels = image_HWC.shape
    padded = np.pad(image_HWC, ((0, -height % block), (0, -width % block), (0, 0)), mode="edge")
    rows, columns = padded.shape[0] // block, padded.shape[1] // block
    blocks = padded.reshape(rows, block, columns, block, channels)
    return np.rint(summary(blocks, axis=(1, 3))).astype(np.uint8)
