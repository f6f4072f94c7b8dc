"""On what a comparison was made."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from loaders.base import Source
from loaders.cores import usable_cores
from tools.measure.nvidia import NvidiaGpus

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
        "usable_cores": usable_cores(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(),
        "gpus": _gpus(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "began": now(),
    }


def now() -> str:
    """This moment, ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def fingerprint_of_machine(metadata: Mapping[str, Any]) -> str:
    """SHA-256 over what must be the same where figures are held against each other."""
    names = ("versions", "processor", "cores", "usable_cores", "memory_gib", "system", "gpus")
    return _digest({name: metadata[name] for name in names})


def fingerprint_of_data(source: Source) -> str:
    """SHA-256 over the shards' names, sizes and record counts, and the schema."""
    shards = [(Path(shard.path).name, shard.size) for shard in source.shards]
    return _digest({"shards": shards, "records": source.plan.counts, "schema": asdict(source.schema)})


def _digest(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


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
    gpus = NvidiaGpus.open()
    if gpus is None:
        return []
    try:
        return gpus.names()
    finally:
        gpus.close()
