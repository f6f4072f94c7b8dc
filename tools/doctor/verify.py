"""Measures what fixes are worth: the pipeline as it is and with one fix, in turn, in fresh processes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from tools.doctor.facts import Facts
from tools.doctor.findings import Finding
from tools.doctor.launch import measure

ORDER = ("before", "after", "after", "before")
"""Neighbours in time are compared with each other, and neither side is always first."""
SECONDS = 2.0
"""Of each measurement, behind its warm-up."""


def verify(
    facts: Facts,
    findings: list[Finding],
    *,
    job: dict[str, Any],
    deadline: float,
    tell: Callable[[str], None],
) -> None:
    """Put ``measured_gain`` to the findings whose fix can be applied mechanically, worst first.

    ``job``: what every measuring process is told. ``deadline``: on time.monotonic's clock; a finding that
    there is no time for stays unmeasured.
    Errors: RunFailed when the pipeline with the fix raises.
    """
    per_s = facts.real.per_s if facts.real is not None else 1.0
    for finding in findings:
        if not finding.changes:
            continue
        rates: dict[str, list[float]] = {"before": [], "after": []}
        took = 0.0
        for side in ORDER:
            left_s = deadline - time.monotonic()
            if left_s < 1.5 * took + 1.0:
                break
            began = time.monotonic()
            tell(f"measuring the pipeline {side} the fix of {finding.kind}")
            changes = finding.changes if side == "after" else []
            said = measure(
                {**job, "seconds": SECONDS, "per_s": per_s, "fill_s": 0.0, "changes": changes},
                timeout_s=left_s,
                tell=lambda _: None,
            )
            took = time.monotonic() - began
            if "rate" not in said.found:
                break
            rates[side].append(said.found["rate"])
        if rates["before"] and rates["after"]:
            finding.measured_gain = statistics.mean(rates["after"]) / statistics.mean(rates["before"])
