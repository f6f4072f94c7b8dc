"""NVIDIA GPUs through NVML, where nvidia-ml-py (the extra `gpu`) and a driver are there.

After the NVML API reference, "Device Queries". NVML knows every GPU of the machine, whatever
CUDA_VISIBLE_DEVICES says. What it can't tell is None: its errors never leave this file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

T = TypeVar("T")

GPU_SERIES = ("utilisation", "memory_mib", "power_w", "pcie_mib_per_s")
"""What is reported of a reading, under these names."""

_PCIE_CPU_LIMIT_S = 0.001
"""CPU time above which PCIe isn't read. NVML watches its counter for 20 ms in each call: a driver that
sleeps meanwhile costs next to nothing, one that spins would disturb what is measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuReading:
    """All GPUs together; None for what could not be read."""

    utilisation: float | None
    """Of the busiest GPU: share of time in which a kernel ran, over NVML's last period (1/6 to 1 s)."""
    memory_mib: float | None
    """In use on all GPUs, by all processes."""
    power_w: float | None
    """Of all boards; averaged over a second by the driver on most GPUs since Ampere."""
    pcie_mib_per_s: float | None
    """Both directions, all GPUs, over the last 20 ms."""
    energy_j: float | None
    """Joules of all GPUs since their driver was loaded (Volta and newer)."""


class NvidiaGpus:
    """NVML, open. ``close`` it in the end."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        count = nvml.nvmlDeviceGetCount()
        self._gpus = [nvml.nvmlDeviceGetHandleByIndex(number) for number in range(count)]
        # The first call also loads what it needs; it's the second that shows the price.
        self._pcie_mib_per_s()
        began_s = time.thread_time()
        self._pcie_mib_per_s()
        self._reads_pcie = time.thread_time() - began_s < _PCIE_CPU_LIMIT_S

    @classmethod
    def open(cls) -> Self | None:
        """None where there is no library, no driver or no GPU."""
        try:
            import pynvml

            pynvml.nvmlInit()
        except Exception:
            # Whatever it is, there is no NVIDIA GPU to read.
            return None
        try:
            gpus = cls(pynvml)
        except Exception:
            _quietly(pynvml.nvmlShutdown)
            return None
        if not gpus._gpus:
            gpus.close()
            return None
        return gpus

    def close(self) -> None:
        _quietly(self._nvml.nvmlShutdown)

    def names(self) -> list[str]:
        """Each GPU's name; '?' for all where one of them can't tell."""
        names = self._of_each(lambda gpu: str(self._nvml.nvmlDeviceGetName(gpu)))
        return names if names is not None else ["?"] * len(self._gpus)

    def read(self) -> GpuReading:
        """Read all GPUs, what takes time (20 ms for each GPU and direction of PCIe) last."""
        nvml = self._nvml
        # millijoules, milliwatts, percent, bytes
        energy = self._of_each(lambda gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu) / 1000)
        power = self._of_each(lambda gpu: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000)
        utilisation = self._of_each(lambda gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu / 100)
        memory = self._of_each(lambda gpu: nvml.nvmlDeviceGetMemoryInfo(gpu).used / 2**20)
        return GpuReading(
            utilisation=max(utilisation) if utilisation else None,
            memory_mib=sum(memory) if memory else None,
            power_w=sum(power) if power else None,
            pcie_mib_per_s=self._pcie_mib_per_s() if self._reads_pcie else None,
            energy_j=sum(energy) if energy else None,
        )

    def _pcie_mib_per_s(self) -> float | None:
        def both_ways(gpu: Any) -> float:
            throughput, nvml = self._nvml.nvmlDeviceGetPcieThroughput, self._nvml
            sent = throughput(gpu, nvml.NVML_PCIE_UTIL_TX_BYTES)
            received = throughput(gpu, nvml.NVML_PCIE_UTIL_RX_BYTES)
            return float(sent + received) / 1024  # KB/s

        rates = self._of_each(both_ways)
        return sum(rates) if rates else None

    def _of_each(self, read: Callable[[Any], T]) -> list[T] | None:
        """What ``read`` tells of every GPU, or None where one can't tell: a part is no sum."""
        try:
            return [read(gpu) for gpu in self._gpus]
        except Exception:
            # Not supported, no permission, a GPU that was lost, a library that is too old.
            return None


def _quietly(close: Callable[[], object]) -> None:
    try:
        close()
    except Exception:
        # Nothing depends on it any more.
        return
