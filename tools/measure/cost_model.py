"""What loader and step should give together, from what each gives alone; and how near that comes.

Loader and step overlap, so that on hardware of their own the slower one sets the rate. On a
shared CPU they also spend the same cores: an image costs each of them core-seconds, and no
more of those are spent in a second than there are cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Bound = Literal["loader", "step", "cores", "copy"]

AGREES_WITHIN = 0.10
"""Share by which measurement and prediction may differ."""
_CONTENDED = 0.9
"""Share of the cores above which the processor counts as used up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    images_per_s: float
    bound: Bound
    """What sets the rate."""
    sentence: str


def predict(
    loader_rate: float,
    step_rate: float,
    *,
    cores: int,
    loader_cores: float | None,
    step_cores: float | None,
    device: str,
    copy_s_per_image: float = 0.0,
) -> Prediction:
    """The rate of loader and step together.

    ``loader_rate`` and ``step_rate`` are images a second, each alone; ``loader_cores`` and
    ``step_cores`` the cores' worth of CPU time that each used meanwhile (None: not known, then
    the cores set no bound). Rates are bounded by min(L, S), with the copy to the device in
    series with the step, and by cores / (loader_cores / L + step_cores / S): the utilisation
    law (Lazowska et al., Quantitative System Performance, 1984, chapter 3).
    """
    with_copy = 1 / (1 / step_rate + copy_s_per_image)
    bounds: dict[Bound, float] = {"loader": loader_rate, "step": step_rate}
    if copy_s_per_image > 0:
        bounds["copy"] = with_copy
    if loader_cores is not None and step_cores is not None:
        core_s_per_image = loader_cores / loader_rate + step_cores / step_rate
        if core_s_per_image > 0:
            bounds["cores"] = cores / core_s_per_image
    bound = min(bounds, key=lambda name: bounds[name])
    why = {
        "loader": "the loader alone gives no more",
        "step": "the step alone takes no more",
        "copy": "copying to the device comes on top of the step",
        "cores": f"loader and step together need all {cores} cores",
    }[bound]
    return Prediction(images_per_s=bounds[bound], bound=bound, sentence=why)


def judge(prediction: Prediction, measured: float, *, row: Mapping[str, Any]) -> dict[str, Any]:
    """The prediction beside the measured rate, as docs/result.md has it; ``row`` is the cell's figures,
    in which evidence is looked for where the two disagree."""
    ratio = measured / prediction.images_per_s
    agrees = abs(ratio - 1) <= AGREES_WITHIN
    sentence = (
        f"predicted {prediction.images_per_s:.0f} img/s ({prediction.sentence}), measured {measured:.0f}"
    )
    if not agrees:
        more = "more" if ratio > 1 else "less"
        sentence += f", {100 * abs(ratio - 1):.0f} % {more}: {_explain(row, ratio)}"
    return {
        "images_per_s": prediction.images_per_s,
        "bound": prediction.bound,
        "measured_over_predicted": ratio,
        "agrees": agrees,
        "sentence": sentence,
    }


def _explain(row: Mapping[str, Any], ratio: float) -> str:
    """What in the cell's figures may explain the difference; it is named as evidence, not as proof."""
    reasons = []
    if row["disturbed_rounds"]:
        reasons.append(f"other processes disturbed {row['disturbed_rounds']} of {len(row['rounds'])} rounds")
    if not row["steady"]:
        reasons.append("rates were not steady")
    if row["ledger"]["compile_s"] > 0:
        reasons.append("XLA compiled while it was measured")
    usage = row["usage"]
    cores, used = len(usage["cores_busy"] or ()), usage["process_cores"]
    if ratio < 1 and cores and used is not None and used >= _CONTENDED * cores:
        reasons.append("the cores are used up, and loader and step push each other out of caches")
    if ratio < 1 and row["ledger"]["copy_s"] > 0:
        reasons.append("copying to the device takes time that the step alone does not")
    return "; ".join(reasons) or "unexplained by what was measured"
