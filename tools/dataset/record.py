"""What a source of records gives to whoever writes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One record, ready to be written."""

    example: bytes
    """The serialized tf.train.Example."""
    image_bytes: int
    """Size of the PNG in it."""
