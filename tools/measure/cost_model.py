"""What loader and step should give together, from what each gives alone; and how near that comes.

Per image, the loader alone takes T_L = 1 / L seconds and U_L cores, the step alone T_S = 1 / S and
U_S. Each has buffers towards the other, so that both work at the same time until the faster one
has to wait: for min(T_L, T_S) of its own work per image they overlap, for the rest the slower
one is alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Bound = Literal["loader", "step", "cores", "copy"]

AGREES_WITHIN = 0.10
"""Share by which measurement and prediction may differ: what a run differs from the next on a machine that
is not kept for it alone."""
FILLED = 0.88
"""Share of the cores it occupies that a pool of threads keeps busy. The rest is waiting for the last thread
at the end of a parallel loop: gaps of microseconds that no other thread is woken for in time. It is what
loaders and steps reach alone with as many threads as cores: 0.82 to 0.98 of 2 cores, 0.88 in the median."""
CORES_BOUND = 0.05
"""The cores are named as the bound where sharing them costs more than this share of the rate."""
CONTENDED = 0.85
"""Share of the cores from which on they count as used up; see FILLED."""
SHARE_OF_TIME = 0.05
"""Compiling or copying explains a difference from this share of the measured time on: half of what the
prediction may be off by."""

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    images_per_s: float
    bound: Bound
    """What sets the rate."""
    sentence: str
    cores: int
    copy_overlapped: bool
    """Whether the copy to the device was taken to cost the step nothing."""


def predict(
    loader_rate: float,
    step_rate: float,
    *,
    cores: int,
    loader_cores: float | None,
    step_cores: float | None,
    device: str,
    copy_s_per_image: float = 0.0,
    copy_overlapped: bool = False,
) -> Prediction:
    """The rate of loader and step together, images a second.

    ``loader_rate`` and ``step_rate`` are images a second, each alone; ``loader_cores`` and
    ``step_cores`` the cores' worth of CPU time that each used meanwhile (None: not known, then
    they are taken to have enough of them). ``copy_s_per_image`` are seconds that the copy to
    the device takes alone; it comes on top of the step, or, ``copy_overlapped``, beside it.
    On a CPU there is no copy.

    A pool of threads that keeps U cores busy occupies W = min(cores, U / FILLED). While both run
    they ask for W_L + W_S cores; of ``cores`` that are shared fairly each gets the same part of
    what it asks for, and takes that much longer (processor sharing: Lazowska et al.,
    Quantitative System Performance, 1984, chapter 3):

        T = max(T_L, T_S) + min(T_L, T_S) * (max(1, (W_L + W_S) / cores) - 1)

    With cores for both that is the slower one's time; where each occupies all of them, the sum
    of both. It is never less than the cores allow, (U_L T_L + U_S T_S) / cores, which alone is
    too hopeful: it would have each run in the other's gaps. Twenty pairs of loader and step
    that were measured on 2 cores (tests/test_cost_model.py) are predicted 1 % too high in the
    mean, 19 of them within 10 %; by what the cores allow alone, 14 % too high, 4 of them within.
    Errors: ValueError for rates or cores that are not above 0 and for negative times.
    """
    if not (loader_rate > 0 and step_rate > 0 and cores > 0):
        raise ValueError(f"rates and cores must be above 0: {loader_rate}, {step_rate}, {cores}")
    if not copy_s_per_image >= 0:
        raise ValueError(f"the copy's seconds must be at least 0: {copy_s_per_image}")
    copy_s = 0.0 if device == "cpu" else copy_s_per_image
    loader_s, step_s = 1 / loader_rate, 1 / step_rate
    device_s = max(step_s, copy_s) if copy_overlapped else step_s + copy_s
    wanted = sum(min(cores, (used or 0.0) / FILLED) for used in (loader_cores, step_cores))
    shared_s = min(loader_s, device_s) * (max(1.0, wanted / cores) - 1)
    image_s = max(loader_s, device_s) + shared_s
    bound: Bound = "loader" if loader_s > device_s else "copy" if copy_s > step_s else "step"
    if shared_s > CORES_BOUND * image_s:
        bound = "cores"
    why = {
        "loader": "the loader alone gives no more",
        "step": "the step alone gives no more" if copy_s == 0 else "the step and the copy give no more",
        "copy": "copying to the device takes longer than the step",
        "cores": f"loader and step share {cores} cores and want {wanted:.1f}",
    }[bound]
    return Prediction(
        images_per_s=1 / image_s, bound=bound, sentence=why, cores=cores, copy_overlapped=copy_overlapped
    )


def judge(
    prediction: Prediction, measured: float, *, row: Row | None = None, alone: Sequence[Row] = ()
) -> dict[str, Any]:
    """The prediction beside the measured rate (images a second), as docs/result.md has it.

    Where the two disagree, evidence is looked for in the figures of the cell, ``row``, and of
    the cells that the prediction rests on, ``alone``.
    """
    ratio = measured / prediction.images_per_s
    agrees = abs(ratio - 1) <= AGREES_WITHIN
    sentence = (
        f"predicted {prediction.images_per_s:.0f} img/s ({prediction.sentence}), measured {measured:.0f}"
    )
    if not agrees:
        difference = f"{100 * abs(ratio - 1):.0f} % {'more' if ratio > 1 else 'less'}"
        reasons = _explain(prediction, ratio, row or {}, alone)
        sentence += f", {difference}: {'; '.join(reasons) or 'unexplained by what was measured'}"
    return {
        "images_per_s": prediction.images_per_s,
        "bound": prediction.bound,
        "measured_over_predicted": ratio,
        "agrees": agrees,
        "sentence": sentence,
    }


def _explain(prediction: Prediction, ratio: float, row: Row, alone: Sequence[Row]) -> list[str]:
    """What may explain the difference: evidence for its direction, no proof."""
    reasons = _anywhere(row)
    for other in alone:
        # What held a cell back that the prediction rests on made the prediction too low.
        reasons += [f"{other['name']}: {each}" for each in _anywhere(other) if ratio > 1]
    ledger = row.get("ledger") or {}
    wall_s = ledger.get("wall_s") or 0.0
    copy_share = (ledger.get("copy_s") or 0.0) / wall_s if wall_s else 0.0
    if ratio > 1:
        if copy_share >= SHARE_OF_TIME and not prediction.copy_overlapped:
            reasons.append("the copy to the device overlaps with the step, and was counted on top of it")
        return reasons
    if copy_share >= SHARE_OF_TIME and prediction.copy_overlapped:
        reasons.append(f"copying to the device takes {100 * copy_share:.0f} % of the time")
    used = (row.get("usage") or {}).get("process_cores")
    if used is not None and used >= CONTENDED * prediction.cores:
        reasons.append(
            f"loader and step keep {used:.1f} of {prediction.cores} cores busy, and push each other out of "
            "them and of their caches"
        )
    return reasons


def _anywhere(row: Row) -> list[str]:
    """What holds a cell back, whatever it is."""
    reasons = []
    ledger = row.get("ledger") or {}
    compiled = (ledger.get("compile_s") or 0.0) / (ledger.get("wall_s") or 1.0)
    if compiled >= SHARE_OF_TIME:
        reasons.append(f"XLA compiled for {100 * compiled:.0f} % of the measured time")
    if row.get("disturbed_rounds"):
        rounds = len(row.get("images_per_s_rounds") or ())
        reasons.append(f"other processes took cores in {row['disturbed_rounds']} of {rounds} rounds")
    if row.get("steady") is False:
        reasons.append("its rates were not steady when the measurement began")
    name = (row.get("pattern") or {}).get("name")
    if name in ("drift", "periodic spikes", "irregular spikes"):
        reasons.append(f"its step times have {'a drift' if name == 'drift' else name}")
    return reasons
