"""What is compared: loaders x XLA modes, each loader alone, and the ceiling of each XLA mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["train", "loader", "ceiling"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One thing to measure, in a process of its own."""

    kind: Kind
    """train: loader and step together; loader: batches alone; ceiling: the step alone, on a batch that is
    on the device already."""
    loader: str | None = None
    """None for a ceiling."""
    xla: str | None = None
    """None for a loader alone."""

    @property
    def name(self) -> str:
        if self.kind == "train":
            return f"{self.loader}, xla {self.xla}"
        return f"{self.loader} alone" if self.kind == "loader" else f"ceiling, xla {self.xla}"


def plan_cells(loaders: Sequence[str], xla_modes: Sequence[str]) -> list[Cell]:
    """Every cell of a comparison, those that are held against each other side by side."""
    alone = [Cell(kind="loader", loader=loader) for loader in loaders]
    by_mode = [
        [
            *(Cell(kind="train", loader=loader, xla=xla) for loader in loaders),
            Cell(kind="ceiling", xla=xla),
        ]
        for xla in xla_modes
    ]
    return [*alone, *(cell for mode in by_mode for cell in mode)]


def order_of_round(cells: Sequence[Cell], round_number: int) -> list[Cell]:
    """A B C in even rounds, C B A in odd ones, so that a drift of the machine hits all alike."""
    return list(cells) if round_number % 2 == 0 else list(reversed(cells))
