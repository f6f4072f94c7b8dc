"""Joules: of the processors by RAPL, of the GPUs by their counter or, where they have none, their power.

RAPL after the Linux kernel's "Power Capping Framework" (Documentation/power/powercap): a
zone is a folder intel-rapl:N (AMD's too) with `name`, `energy_uj`, a counter in microjoules,
and `max_energy_range_uj`, at which it starts again from 0. Only zones of whole packages are
read: cores and graphics are parts of them, and `psys` has them in it. Many systems let only
root read the counter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from tools.measure.nvidia import GpuReading

POWERCAP = Path("/sys/class/powercap")

Source = Literal["gpu", "processor"]


@dataclass(frozen=True, kw_only=True, slots=True)
class EnergyReading:
    """What tells energy, at one moment."""

    gpu: GpuReading | None
    processor_j: float | None
    """Joules of all processor packages since some moment; None where unreadable."""


@dataclass(slots=True)
class _Zone:
    counter: Path
    range_uj: int
    last_uj: int
    spent_uj: int = 0

    def advance(self) -> None:
        now_uj = int(self.counter.read_text())
        wrapped = self.range_uj if now_uj < self.last_uj else 0
        self.spent_uj += now_uj + wrapped - self.last_uj
        self.last_uj = now_uj


class ProcessorEnergy:
    """The energy counters of all processor packages, open."""

    def __init__(self, zones: Sequence[_Zone]) -> None:
        self._zones = zones

    @classmethod
    def open(cls, powercap: Path = POWERCAP) -> Self | None:
        """None where there are no counters, or they may not be read."""
        try:
            packages = [folder for folder in sorted(powercap.glob("intel-rapl:*")) if _is_package(folder)]
            zones = [_open_zone(folder) for folder in packages]
        except (OSError, ValueError):
            return None
        return cls(zones) if zones else None

    def read_j(self) -> float | None:
        """Joules since this was opened, of all packages together; None when a counter can't be read.

        Must be called once in the time that a counter takes to wrap around, a minute or more.
        """
        try:
            for zone in self._zones:
                zone.advance()
        except (OSError, ValueError):
            return None
        return sum(zone.spent_uj for zone in self._zones) / 1e6


def sources(reading: EnergyReading) -> list[Source]:
    """Whose energy can be told."""
    told: list[Source] = []
    if reading.gpu and (reading.gpu.energy_j is not None or reading.gpu.power_w is not None):
        told.append("gpu")
    if reading.processor_j is not None:
        told.append("processor")
    return told


def joules_between(
    before: EnergyReading, now: EnergyReading, seconds: float, of: Sequence[Source]
) -> float | None:
    """Joules that all the sources spent in ``seconds`` between two readings.

    None where there is no source, or one of them did not tell: a part is no sum.
    """
    joules = {
        "gpu": _gpu_j(before.gpu, now.gpu, seconds),
        "processor": _difference(before.processor_j, now.processor_j),
    }
    parts = [joules[source] for source in of]
    told = [part for part in parts if part is not None]
    return sum(told) if told and len(told) == len(parts) else None


def _gpu_j(before: GpuReading | None, now: GpuReading | None, seconds: float) -> float | None:
    if before is None or now is None:
        return None
    counted = _difference(before.energy_j, now.energy_j)
    if counted is not None:
        return counted
    if before.power_w is None or now.power_w is None:
        return None
    return (before.power_w + now.power_w) / 2 * seconds


def _difference(before: float | None, now: float | None) -> float | None:
    return None if before is None or now is None else max(0.0, now - before)


def _is_package(folder: Path) -> bool:
    """Zones within a package (intel-rapl:0:1) have folders of their own beside it."""
    is_top = re.fullmatch(r"intel-rapl:\d+", folder.name) is not None
    return is_top and (folder / "name").read_text().startswith("package")


def _open_zone(folder: Path) -> _Zone:
    counter = folder / "energy_uj"
    return _Zone(counter, int((folder / "max_energy_range_uj").read_text()), int(counter.read_text()))
