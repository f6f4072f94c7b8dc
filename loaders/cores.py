"""How many cores this process may use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Cores that this process may run on; all of them where the system can't tell."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
