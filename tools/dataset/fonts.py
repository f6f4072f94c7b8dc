"""The typefaces that texts are set in: the font files that ship inside matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from PIL import ImageFont

from loaders.cli import RunFailed

# Listed by name, so that a matplotlib with one file more draws the same pictures.
# Its other files are symbols, single sizes of brackets, or letters at unusual codes.
_FILES = (
    "DejaVuSans.ttf",
    "DejaVuSans-Bold.ttf",
    "DejaVuSans-Oblique.ttf",
    "DejaVuSans-BoldOblique.ttf",
    "DejaVuSansMono.ttf",
    "DejaVuSansMono-Bold.ttf",
    "DejaVuSansMono-Oblique.ttf",
    "DejaVuSansMono-BoldOblique.ttf",
    "DejaVuSerif.ttf",
    "DejaVuSerif-Bold.ttf",
    "DejaVuSerif-Italic.ttf",
    "DejaVuSerif-BoldItalic.ttf",
    "STIXGeneral.ttf",
    "STIXGeneralBol.ttf",
    "STIXGeneralItalic.ttf",
    "STIXGeneralBolIta.ttf",
)
_NO_CHARACTER = "\U0010ffff"
"""Unicode will never assign it, so every font draws its sign for a missing character."""


def faces_for(alphabet: str) -> tuple[str, ...]:
    """The font files that can draw every character of ``alphabet``.

    Errors: ValueError that names the first character no font has; RunFailed when
    matplotlib comes without its fonts.
    """
    files = _font_files()
    unprintable = next((character for character in alphabet if not character.isprintable()), None)
    if unprintable is not None:
        raise ValueError(f"--alphabet has a character that cannot be drawn: {unprintable!r}")
    lacking = {file: _lacking(file, alphabet) for file in files}
    able = tuple(file for file, character in lacking.items() if character is None)
    if not able:
        # The font that comes farthest tells the character that is hardest to find.
        character = max((c for c in lacking.values() if c is not None), key=alphabet.index)
        raise ValueError(
            f"--alphabet has a character that none of matplotlib's fonts can draw: {character!r}"
        )
    return able


@lru_cache(maxsize=256)
def load(file: str, size: float) -> ImageFont.FreeTypeFont:
    """The typeface of ``file`` at ``size`` pixels."""
    # The basic layout is there in every build of Pillow, so the pictures are the same in all.
    return ImageFont.truetype(file, size, layout_engine=ImageFont.Layout.BASIC)


def _font_files() -> Sequence[str]:
    spec = find_spec("matplotlib")
    if spec is None or spec.origin is None:
        raise RunFailed("matplotlib, whose fonts draw the texts, is not installed: run `uv sync`")
    folder = Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf"
    files = [str(folder / name) for name in _FILES if (folder / name).is_file()]
    if not files:
        raise RunFailed(f"{folder}: matplotlib's fonts are not there")
    return files


def _lacking(file: str, alphabet: str) -> str | None:
    """The first character that the font lacks, None if it has all."""
    font = load(file, 32)
    missing = bytes(font.getmask(_NO_CHARACTER))
    return next((character for character in alphabet if bytes(font.getmask(character)) == missing), None)
