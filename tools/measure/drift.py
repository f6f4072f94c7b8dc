"""Steps that become slower or faster in the course of a run."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tools.measure.robust import (
    Floats,
    best_split,
    in_blocks,
    kendall_sigmas,
    memory_of,
    pettitt_sigmas,
    theil_sen,
)
from tools.measure.spikes import seconds_words

LEAST_STEPS = 8
"""Fewer steps show no pattern: the quartiles that tell spikes from noise need a few steps each."""
DRIFT_SHARE = 0.10
"""Drift is a change of the typical step by more than this share over the run: what two cells must differ by
to be told apart in practice, and more than clocks and temperature change in seconds."""
DRIFT_SIGMAS = 3.29
"""... that chance gives in 1 of 1000 steady runs (two-sided), for each of two shapes: a slope and a jump."""


def trend_of(logs: Floats, begin: int) -> Floats:
    """A line that follows the run's lower quartiles, so that a drift is not taken for spikes."""
    blocks = in_blocks(logs[begin:], np.arange(begin, len(logs)), 25)
    if len(blocks) < LEAST_STEPS:
        return np.zeros(len(logs))
    steps = np.arange(len(logs), dtype=np.float64)
    return theil_sen(blocks) * (steps - len(logs) / 2)


def find_drift(logs: Floats, calm: npt.NDArray[np.bool_], begin: int) -> str | None:
    """How the typical step changed over the run, where it surely did by more than ``DRIFT_SHARE``."""
    steps = np.arange(len(logs))[begin:][calm[begin:]]
    blocks = in_blocks(logs[steps], steps, 50)
    if len(blocks) < LEAST_STEPS:
        return None
    at, level = blocks[:, 0], blocks[:, 1]
    slope = theil_sen(blocks)
    line = np.median(level - slope * at) + slope * at
    split, sides = best_split(level)
    shapes = [
        (line, kendall_sigmas(level), "steadily"),
        (sides, pettitt_sigmas(level), f"at once, about step {int(at[split])},"),
    ]
    sure = [
        (np.sum(np.abs(level - fit)), fit, how) for fit, sigmas, how in shapes if _changes(level, fit, sigmas)
    ]
    if not sure:
        return None
    _, fit, how = min(sure, key=lambda shape: float(shape[0]))
    from_s, to_s = seconds_words(math.exp(fit[0])), seconds_words(math.exp(fit[-1]))
    return f"steps went {how} from {from_s} to {to_s} ({100 * math.expm1(fit[-1] - fit[0]):+.0f} %)"


def _changes(level: Floats, fit: Floats, sigmas: float) -> bool:
    memory = memory_of(level - fit)
    # Noise with a memory counts for fewer blocks: n (1 - r) / (1 + r) (Bayley and Hammersley, 1946).
    sigmas *= math.sqrt((1 - memory) / (1 + memory))
    return abs(float(fit[-1] - fit[0])) > math.log1p(DRIFT_SHARE) and sigmas >= DRIFT_SIGMAS
