"""What a record holds: the names of its features, the shape of its image, its codes."""

from __future__ import annotations

from dataclasses import dataclass

MAX_CODES = {"uint8": 256, "int32": 2**31}
"""How many codes a target dtype can tell apart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Schema:
    """The schema of a data set, every field known.

    Errors: ValueError that names the field, the rule and the value.
    """

    image_feature: str = "image"
    """Feature with the PNG file (bytes, one value)."""
    target_feature: str = "some_text"
    """Feature with the codes of the text (int64, max_len values, 0 behind the end),
    or with a class label (int64, one value; max_len is 1)."""
    id_feature: str | None = "image_id"
    """Feature with the record's id (bytes, one value); None where records have none."""
    max_len: int
    """Codes a record, T."""
    height: int
    """Pixels, H."""
    width: int
    """Pixels, W."""
    channels: int = 3
    """Channels of the decoded image, C: 1 grey, 3 RGB, 4 RGBA."""
    num_classes: int
    """Codes are from 0 to num_classes - 1."""
    alphabet: str | None = None
    """Character i of it has the code i + 1; None where the codes are no text."""

    def __post_init__(self) -> None:
        for field in ("max_len", "height", "width", "num_classes"):
            value = getattr(self, field)
            if not _is_whole(value) or value < 1:
                raise ValueError(f"{field} must be a whole number of at least 1: {value!r}")
        if not _is_whole(self.channels) or self.channels not in (1, 3, 4):
            raise ValueError(f"channels must be 1, 3 or 4: {self.channels!r}")
        for field in ("image_feature", "target_feature"):
            if not isinstance(getattr(self, field), str) or not getattr(self, field):
                raise ValueError(f"{field} must be the name of a feature: {getattr(self, field)!r}")
        if self.id_feature is not None and (not isinstance(self.id_feature, str) or not self.id_feature):
            raise ValueError(f"id_feature must be the name of a feature, or none: {self.id_feature!r}")
        names = [self.image_feature, self.target_feature, self.id_feature]
        if len(set(names)) != len(names):
            raise ValueError(f"image_feature, target_feature and id_feature must differ: {names!r}")
        if self.alphabet is not None:
            if not isinstance(self.alphabet, str) or len(set(self.alphabet)) != len(self.alphabet):
                raise ValueError(f"alphabet must be a string of different characters: {self.alphabet!r}")
            if len(self.alphabet) >= self.num_classes:
                raise ValueError(
                    f"num_classes must be greater than the {len(self.alphabet)} characters of the alphabet "
                    f"(0 is the padding): {self.num_classes}"
                )

    def decode_text(self, codes: list[int]) -> str:
        """The text of one record's codes, up to the first 0; codes without a character as <n>."""
        alphabet = self.alphabet or ""
        text = []
        for code in codes:
            if code == 0:
                break
            text.append(alphabet[code - 1] if code <= len(alphabet) else f"<{code}>")
        return "".join(text)


def _is_whole(value: object) -> bool:
    """Whether ``value``, which may come from a JSON file, is a number without a point."""
    return isinstance(value, int) and not isinstance(value, bool)
