"""What is compared: loaders x XLA modes, each loader alone, and the ceiling of each XLA mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from loaders.reference import short_name

Kind = Literal["train", "loader", "ceiling"]

_SETTINGS = {"parallel": ("parallel_calls", "dali_threads")}
"""Settings of a sweep that stand for more than one field of the config."""


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
    settings: tuple[tuple[str, int], ...] = ()
    """Settings that differ from the comparison's: a point of a sweep."""

    @property
    def name(self) -> str:
        loader = short_name(self.loader or "")
        if self.kind == "train":
            return f"{loader}, xla {self.xla}"
        if self.kind == "ceiling":
            return f"ceiling, xla {self.xla}"
        with_settings = "".join(f", {name} {value}" for name, value in self.settings)
        return f"{loader} alone{with_settings}"

    def changes(self) -> dict[str, Any]:
        """What this cell's training config has other than the comparison's."""
        changes: dict[str, Any] = {"loader": self.loader or "tfdata", "xla": self.xla or "off"}
        for name, value in self.settings:
            changes.update(dict.fromkeys(_SETTINGS.get(name, (name,)), value))
        return changes


def plan_cells(loaders: Sequence[str], xla_modes: Sequence[str], kinds: Sequence[Kind]) -> list[Cell]:
    """Every cell of a comparison, those that are held against each other side by side."""
    alone = [Cell(kind="loader", loader=loader) for loader in loaders]
    by_mode = [
        [*(Cell(kind="train", loader=loader, xla=xla) for loader in loaders), Cell(kind="ceiling", xla=xla)]
        for xla in xla_modes
    ]
    cells = [*alone, *(cell for mode in by_mode for cell in mode)]
    return [cell for cell in cells if cell.kind in kinds]


def plan_sweep(loaders: Sequence[str], sweep: Mapping[str, Sequence[int]]) -> list[Cell]:
    """A cell for each loader alone with each value of each setting, the others as they are."""
    return [
        Cell(kind="loader", loader=loader, settings=((setting, value),))
        for setting, values in sweep.items()
        for value in values
        for loader in loaders
    ]


def order_of_round(cells: Sequence[Cell], round_number: int) -> list[Cell]:
    """A B C in even rounds, C B A in odd ones, so that a drift of the machine hits all alike."""
    return list(cells) if round_number % 2 == 0 else list(reversed(cells))
