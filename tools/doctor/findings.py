"""A finding: what is wrong, where, how that is known, what to write instead, and what that is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tools.doctor.facts import Facts, Place
from tools.doctor.outlook import Outlook

ERROR_GAIN = 2.0
"""A fix that makes a run twice as fast is worth dropping everything else for."""
WARNING_GAIN = 1.10
"""Below a tenth a prediction is as good as the noise of machines that people train on."""

SEVERITIES = ("error", "warning", "note")


@dataclass(kw_only=True, slots=True)
class Finding:
    """One fault."""

    kind: str
    severity: str
    place: Place
    message: str
    """What it is, and the figures that show it."""
    fix: str
    """What to write instead, as code."""
    measure: str = "throughput"
    """What the gain is of: 'throughput', 'memory' (MiB), 'order', 'variety' (shares)."""
    predicted_gain: float | list[float] | None = None
    """Of throughput the ratio, 2.0 is twice; of anything else the figures before and after."""
    measured_gain: float | None = None
    sure: str = "measured"
    """How it is known: 'measured', 'modelled' from measured parts, or 'read' in the pipeline itself."""
    changes: list[dict[str, Any]] = field(default_factory=list)
    """How ``--verify`` applies the fix; empty where it takes a person."""
    limit_after: str = ""
    """What limits the run once it is fixed, and at which rate."""

    @property
    def weight(self) -> tuple[int, float]:
        """For sorting: worst first."""
        gain = self.predicted_gain if isinstance(self.predicted_gain, float) else 1.0
        return SEVERITIES.index(self.severity), -gain


Rule = Callable[[Facts, Outlook], Iterable[Finding]]


def severity_of(gain: float) -> str:
    if gain >= ERROR_GAIN:
        return "error"
    return "warning" if gain >= WARNING_GAIN else "note"


def find(facts: Facts, rules: Sequence[Rule]) -> list[Finding]:
    """All findings, worst first; of several about one line only the worst of each kind."""
    outlook = Outlook(facts)
    found: dict[tuple[str, str, int], Finding] = {}
    for finding in _all(facts, outlook, rules):
        key = (finding.kind, finding.place.file, finding.place.line)
        if key not in found or finding.weight < found[key].weight:
            found[key] = finding
    return sorted(found.values(), key=lambda each: each.weight)


def _all(facts: Facts, outlook: Outlook, rules: Sequence[Rule]) -> Iterator[Finding]:
    for rule in rules:
        yield from rule(facts, outlook)
