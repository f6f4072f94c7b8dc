"""The flags of tools/selftest.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tyro.conf import Positional


@dataclass(frozen=True, kw_only=True, slots=True)
class SelftestConfig:
    """Which check, and how often. Every field is a flag."""

    check: Positional[Literal["truth", "self", "slower", "busy"]]
    """Which."""
    times: int = 20
    """Comparisons of a loader with its copy (self)."""
    pairs: int = 12
    """Pairs of a loader's rate and a step's time (truth)."""
    measure_s: float = 2.0
    """Seconds that a cell is measured in a round."""

    def __post_init__(self) -> None:
        for field in ("times", "pairs"):
            if getattr(self, field) < 1:
                raise ValueError(f"--{field} must be at least 1: {getattr(self, field)}")
        if not 0.1 <= self.measure_s <= 600:
            raise ValueError(f"--measure-s must be from 0.1 to 600 seconds: {self.measure_s}")
