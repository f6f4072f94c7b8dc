"""On what a comparison was made."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

_PACKAGES = (
    "tensorflow",
    "keras",
    "numpy",
    "nvidia-dali-cuda120",
    "nvidia-dali-tf-plugin-cuda120",
    "feedline",
)


def collect() -> dict[str, Any]:
    """Versions, processor, GPUs, command and moment of this run."""
    return {
        "versions": {"python": platform.python_version(), **_versions()},
        "processor": _processor(),
        "cores": psutil.cpu_count(logical=True),
        "usable_cores": len(psutil.Process().cpu_affinity()) if hasattr(os, "sched_getaffinity") else None,
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(),
        "gpus": _gpus(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "began": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _gpus() -> list[str]:
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:
        # No library (it comes with the extra `gpu`), or no driver: either way no NVIDIA GPU to name.
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return [str(pynvml.nvmlDeviceGetName(handle)) for handle in handles]
    finally:
        pynvml.nvmlShutdown()
