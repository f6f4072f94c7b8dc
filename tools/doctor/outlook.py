"""What changes to a pipeline would be worth for the whole run, its step included."""

from __future__ import annotations

from collections.abc import Sequence

from tools.doctor import capacity
from tools.doctor.capacity import Stage
from tools.doctor.facts import Facts, Row

LEAST_SHARE = 0.02
"""Of a step's time; below it a dataset is no limit, whatever is wrong with it."""


class Outlook:
    """Predictions from what was measured. Rates are elements of the whole pipeline a second."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.stages = capacity.stages_of(facts)
        self.cores = float(capacity.pool_size(facts))
        self.modelled_per_s, self.limit = (
            capacity.predict(self.stages, self.cores) if self.stages else (0.0, -1)
        )
        self.loader_per_s = facts.real.per_s if facts.real else self.modelled_per_s
        self.cpu_s = sum(each.cpu_s for each in self.stages)

    def stage(self, row: int) -> Stage:
        return next(each for each in self.stages if each.row == row)

    def gain(
        self,
        stages: Sequence[Stage] | None = None,
        *,
        cores: float | None = None,
        overlap: bool | None = None,
    ) -> float:
        """How many times as fast the run is when the pipeline has these stages, cores or overlap."""
        stages = self.stages if stages is None else stages
        cores = self.cores if cores is None else cores
        per_s = capacity.predict(stages, cores)[0]
        if not self.modelled_per_s or per_s == float("inf"):
            ratio = 1.0 if stages is self.stages else 100.0
        else:
            # It may have been faster than modelled: then there is less to win.
            ratio = per_s / max(self.modelled_per_s, min(self.loader_per_s, per_s))
        return self.run_gain(max(1.0, ratio), cpu_s=sum(each.cpu_s for each in stages), overlap=overlap)

    def run_gain(
        self, loader_ratio: float, *, cpu_s: float | None = None, overlap: bool | None = None
    ) -> float:
        """What a dataset so many times as fast makes of the whole run: no more than its step lets it."""
        step = self.facts.step
        if step is None or not step.step_per_s or not step.loader_per_s:
            return loader_ratio
        now = self._coupled(step.loader_per_s, self.cpu_s, self.overlaps)
        then = self._coupled(
            step.loader_per_s * loader_ratio,
            self.cpu_s if cpu_s is None else cpu_s,
            self.overlaps if overlap is None else overlap,
        )
        return then / now

    def _coupled(self, loader_per_s: float, loader_cpu_s: float, overlap: bool) -> float:
        step = self.facts.step
        assert step is not None
        return capacity.coupled(
            loader_per_s,
            step.step_per_s,
            overlap=overlap,
            loader_cpu_s=loader_cpu_s,
            step_cpu_s=step.step_cores / step.step_per_s,
            cores=float(self.facts.cores),
        )

    @property
    def overlaps(self) -> bool:
        """Whether the dataset works while the step does."""
        facts = self.facts
        if not facts.rows or capacity.optimised(facts, "inject_prefetch"):
            return True
        last = facts.rows[-1]
        while last.call in ("with_options", "options") and last.inputs:
            last = facts.rows[last.inputs[0]]
        return last.call in ("prefetch", "DALIDataset")

    def limit_after(self, stages: Sequence[Stage], cores: float | None = None) -> str:
        """What limits the pipeline with these stages, in words, with its rate."""
        per_s, row = capacity.predict(stages, self.cores if cores is None else cores)
        step = self.facts.step
        if step is not None and step.step_per_s and step.step_per_s < per_s:
            return f"then the step itself limits it, at {step.step_per_s:.4g} a second"
        what = (
            f".{self.facts.rows[row].call} at line {self.facts.rows[row].place.line}"
            if row >= 0
            else "all cores together"
        )
        return f"then {what} limit{'s' if row >= 0 else ''} it, at {per_s:.4g} elements a second"

    def share(self, row: int) -> float:
        """Of the CPU time of the whole pipeline."""
        return self.stage(row).cpu_s / self.cpu_s if self.cpu_s else 0.0

    def above(self, number: int) -> list[Row]:
        """All rows that a row reads, directly or through others, nearest first."""
        rows = self.facts.rows
        found, frontier = [], list(rows[number].inputs)
        while frontier:
            each = frontier.pop(0)
            found.append(rows[each])
            frontier += rows[each].inputs
        return found
