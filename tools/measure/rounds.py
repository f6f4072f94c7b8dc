"""The rounds of a comparison: every cell in a fresh process, in alternating order, until it is enough."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from tools.measure.cells import Cell, order_of_round
from tools.measure.config import CompareConfig
from tools.measure.launch import run_job
from tools.measure.page_cache import evict
from tools.measure.sampler import is_disturbed
from tools.measure.stats import LEAST_PAIRS, paired_ratio
from tools.measure.summary import Round, round_rate

log = logging.getLogger(__name__)

START_S = 180.0
"""What a process may take on top of warm-up and measurement: imports, checks, decoding a cache, compiles."""
SURE_WITHIN = 0.02
"""Two cells are surely equal when the interval of their ratio lies within this of 1."""


@dataclass(kw_only=True, slots=True)
class Progress:
    """How far a comparison is, for whoever shows it."""

    cell: str
    """Name of the cell that has just been run."""
    images_per_s: float
    notes: tuple[str, ...]
    round: int
    """From 1."""
    rounds: int
    done: int
    """Cells run in all rounds."""
    total: int
    left_s: float
    """Estimated from the cells so far."""


Tell = Callable[[Progress], None]


@dataclass(kw_only=True, slots=True)
class Rounds:
    """What was run. ``complete`` is False when Ctrl-C cut it short; finished cells are kept."""

    of: dict[Cell, list[Round]] = field(default_factory=dict)
    complete: bool = True
    why_stopped: str = "all rounds were run"
    sampling_cost_shares: list[float] = field(default_factory=list)

    def rates(self, cell: Cell, batch_size: int) -> list[float]:
        return [round_rate(each, batch_size) for each in self.of[cell]]


def run_rounds(
    config: CompareConfig, cells: Sequence[Cell], paths: Sequence[str], tell: Tell, *, spent_s: float = 0.0
) -> Rounds:
    """Run up to ``rounds_to_run`` rounds of all cells; ``spent_s`` of the budget are spent already.

    Stops early when the answer is sure (only where more than ``LEAST_PAIRS`` rounds were asked
    for), when the budget would be overrun, and on Ctrl-C.
    Errors: ValueError, RunFailed from a cell's process.
    """
    rounds = Rounds(of={cell: [] for cell in cells})
    began = time.monotonic()
    total = config.rounds_to_run * len(cells)
    done = 0
    try:
        for number in range(config.rounds_to_run):
            why = _why_stop(config, rounds, number, time.monotonic() - began, spent_s)
            if why:
                rounds.why_stopped = why
                break
            for cell in order_of_round(cells, number):
                result = _run_cell(config, cell, cells, paths)
                spent = spent_s + time.monotonic() - began
                if result["disturbed"] and _may_repeat(config, spent, done + 1, len(cells)):
                    result = {**_run_cell(config, cell, cells, paths), "repeated": True}
                rounds.of[cell].append(result)
                rounds.sampling_cost_shares.append(result.pop("sampling_cost_share"))
                done += 1
                tell(
                    Progress(
                        cell=cell.name,
                        images_per_s=round_rate(result, batch_size_of(cell, config)),
                        notes=_notes(result),
                        round=number + 1,
                        rounds=config.rounds_to_run,
                        done=done,
                        total=total,
                        left_s=(time.monotonic() - began) / done * (total - done),
                    )
                )
    except KeyboardInterrupt:
        rounds.complete = False
        rounds.why_stopped = "it was interrupted"
    return rounds


def batch_size_of(cell: Cell, config: CompareConfig) -> int:
    """Records a batch in ``cell``, which a sweep may have changed."""
    return int(cell.changes().get("batch_size", config.batch_size))


def _why_stop(
    config: CompareConfig, rounds: Rounds, number: int, in_rounds_s: float, before_s: float
) -> str | None:
    if number == 0:
        return None
    # The next round takes as long as those before did.
    if config.budget_s is not None and before_s + in_rounds_s * (1 + 1 / number) > config.budget_s:
        return f"another round would not end within --budget-s {config.budget_s:.0f}"
    if number >= LEAST_PAIRS and is_sure(rounds, config.batch_size):
        return f"every pair of loaders was told apart, or found equal, after {number} rounds"
    return None


def is_sure(rounds: Rounds, batch_size: int) -> bool:
    """Whether more rounds would change nothing: each pair of cells of a kind either differs (its interval
    does not hold 1) or is equal within ``SURE_WITHIN``."""
    for kind in ("train", "loader"):
        cells = [cell for cell in rounds.of if cell.kind == kind and not cell.settings]
        for a, b in combinations(cells, 2):
            ratio = paired_ratio(rounds.rates(a, batch_size), rounds.rates(b, batch_size))
            if ratio.low is None or ratio.high is None:
                return False
            equal = 1 - SURE_WITHIN <= ratio.low <= ratio.high <= 1 + SURE_WITHIN
            if ratio.covers_one and not equal:
                return False
    return True


def _may_repeat(config: CompareConfig, spent_s: float, done: int, cells: int) -> bool:
    """Whether a disturbed cell is run once more; ``done`` cells took ``spent_s`` of the budget.

    A quick comparison has no time for that. Under a budget, rounds enough for an interval come first.
    """
    if config.quick:
        return False
    if config.budget_s is None:
        return True
    still = max(0, LEAST_PAIRS * cells - done) + 1
    return spent_s * (1 + still / done) <= config.budget_s


def _run_cell(
    config: CompareConfig, cell: Cell, cells: Sequence[Cell], paths: Sequence[str]
) -> dict[str, Any]:
    if config.cold and not evict(paths):
        log.warning("--cold: the system keeps the shards in memory; %s reads them from there", cell.name)
    loaders = [each.loader for each in cells if each.loader]
    began = time.monotonic()
    result = run_job(
        cell.kind,
        config.training(**cell.changes()),
        timeout_s=START_S + config.warm_up_limit_s + 10 * config.measure_limit_s,
        measure_s=config.measure_limit_s,
        warm_up_s=config.warm_up_limit_s,
        batch_from=loaders[0] if loaders else "tfdata",
    )
    _place_samples(result)
    log.debug("%s took %.1f s", cell.name, time.monotonic() - began)
    return result


def _place_samples(result: dict[str, Any]) -> None:
    """Put the measured time on the samples' clock (both are the system's monotonic clock), and say
    whether it was disturbed."""
    samples = result["samples"]
    began = samples.pop("began_monotonic")
    samples["measured_from_s"] = result.pop("measured_from") - began
    samples["measured_to_s"] = result.pop("measured_to") - began
    result["disturbed"] = is_disturbed(samples, samples["measured_from_s"], samples["measured_to_s"])


def _notes(result: Mapping[str, Any]) -> tuple[str, ...]:
    notes = []
    if not result["steady"]:
        notes.append("never steady")
    if result["disturbed"]:
        notes.append("disturbed by other processes")
    elif result.get("repeated"):
        notes.append("repeated, after other processes disturbed it")
    return tuple(notes)
