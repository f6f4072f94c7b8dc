"""The doctor's result: what was asked, what was found, and its form as JSON."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass, field
from typing import Any

from loaders.atomic import write_beside
from tools.doctor.facts import Facts
from tools.doctor.findings import Finding
from tools.doctor.outlook import Outlook
from tools.doctor.verdict import Verdict
from tools.doctor.xla_advice import XlaAdvice

VERSION = 1


@dataclass(kw_only=True, slots=True)
class Diagnosis:
    """What ``diagnose`` returns; prints itself in a terminal and shows itself as a page in a notebook."""

    asked: dict[str, Any]
    facts: Facts
    verdict: Verdict
    findings: list[Finding]
    xla: XlaAdvice | None
    seconds: float = 0.0
    """Wall time of the whole."""
    predicted: list[dict[str, Any]] = field(default_factory=list)
    """The predictions as they stood before any fix was measured."""

    def to_json(self) -> dict[str, Any]:
        """docs/diagnosis.md tells its fields."""
        return {
            "version": VERSION,
            "asked": self.asked,
            "verdict": dataclasses.asdict(self.verdict),
            "findings": [_finding(each) for each in self.findings],
            "ladder": ladder_of(self.facts),
            "compiles": [dataclasses.asdict(each) for each in self.facts.step.events]
            if self.facts.step
            else [],
            "xla": dataclasses.asdict(self.xla) if self.xla else None,
            "predicted": self.predicted,
            "facts": dataclasses.asdict(self.facts),
            "seconds": self.seconds,
        }

    def write_json(self, path: str | os.PathLike[str]) -> None:
        """Write the result to ``path``, whole or not at all. Errors: OSError."""
        with write_beside(path) as file:
            file.write(json.dumps(self.to_json(), indent=1).encode())

    def __str__(self) -> str:
        from tools.doctor.terminal import to_text

        return to_text(self)

    def _repr_html_(self) -> str:
        import html

        from tools.doctor.page import render_html

        # A frame of its own keeps the page's style from the notebook's.
        page = html.escape(render_html(self))
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 80vh; border: 0"></iframe>'


def ladder_of(facts: Facts) -> list[dict[str, Any]]:
    """The calls from source to sink, each with what it costs and what would follow if it were free."""
    from tools.doctor import capacity

    outlook = Outlook(facts)
    by_row = {each.row: each for each in outlook.stages}
    ladder = []
    for number, row in enumerate(facts.rows):
        stage = by_row.get(number)
        free = None
        if stage is not None and outlook.modelled_per_s:
            without = capacity.changed(outlook.stages, number, cpu_s=0.0, wall_s=0.0)
            free = outlook.loader_per_s * capacity.predict(without, outlook.cores)[0] / outlook.modelled_per_s
        rate = row.rate
        ladder.append(
            {
                "call": row.call,
                "file": row.place.file,
                "line": row.place.line,
                "code": row.place.code,
                "function": dataclasses.asdict(row.mapped.place) if row.mapped and row.mapped.place else None,
                "element": row.element,
                "per_s": rate.per_s if rate else None,
                "records_per_s": rate.per_s * row.records if rate and row.records else None,
                "mib_per_s": rate.per_s * rate.bytes / 2**20 if rate else None,
                "own_cpu_s": stage.cpu_s if stage else None,
                "own_share": outlook.share(number) if stage else None,
                "cores_used": rate.cores if rate else None,
                "threads": stage.threads if stage else None,
                "own_model": dataclasses.asdict(row.own) if row.own else None,
                "per_s_if_free": free if free is not None and free != float("inf") else None,
                "ops": [dataclasses.asdict(each) for each in row.mapped.costs] if row.mapped else [],
                "inner": [
                    {
                        "call": each.call,
                        "file": each.place.file,
                        "line": each.place.line,
                        "per_s": each.rate.per_s if each.rate else None,
                    }
                    for each in row.inner
                ],
            }
        )
    return ladder


def _finding(finding: Finding) -> dict[str, Any]:
    told = dataclasses.asdict(finding)
    place = told.pop("place")
    return {
        "kind": told.pop("kind"),
        "severity": told.pop("severity"),
        "file": place["file"],
        "line": place["line"],
        "code": place["code"],
        **told,
    }
