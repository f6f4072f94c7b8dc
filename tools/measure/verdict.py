"""One sentence: what limits the run, and which setting to use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tools.measure.stats import ratio_of_rows

Limit = Literal["input-bound", "compute-bound", "balanced", "host-bound"]

BALANCED_WITHIN = 0.10
"""Loader alone and step alone are called balanced when their rates differ by less."""
COUPLED_LOSS = 0.15
"""Below the slower of both by more than this, the two slow each other down."""
CLOSE_IN_FEW_ROUNDS = 0.15
"""Without an interval, cells that differ by less are not ranked."""

_SIMPLEST = {"off": 0, "auto": 1, "jit": 2, "tfdata": 0, "dali": 1, "cached": 3}
"""Among cells that tie, the one with the lowest numbers is advised; a user's own loader counts 2."""

Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    sentence: str
    limit: Limit | None = None
    """None where the loader alone or the step alone was not measured."""
    loader: str | None = None
    xla: str | None = None


def judge(rows: Sequence[Row], device: str) -> Verdict | None:
    """The verdict over the summary's rows; None while there is nothing to judge."""
    trained = [row for row in rows if row["kind"] == "train"]
    if not trained:
        return _judge_loaders([row for row in rows if row["kind"] == "loader"])
    best = max(trained, key=lambda row: row["images_per_s"])
    level = [row for row in trained if row is best or not slower(row, best)]
    chosen = min(level, key=lambda row: (_SIMPLEST.get(row["xla"], 3), _SIMPLEST.get(row["loader"], 2)))
    alone = _find(rows, kind="loader", loader=chosen["loader"])
    ceiling = _find(rows, kind="ceiling", xla=chosen["xla"])
    use = f"use --loader {chosen['loader']} --xla {chosen['xla']}{_why(chosen, trained, level)}"
    if alone is None or ceiling is None:
        return Verdict(sentence=f"{use}.", loader=chosen["loader"], xla=chosen["xla"])
    limit = limit_of(chosen["images_per_s"], alone["images_per_s"], ceiling["images_per_s"])
    sentence = f"{limit}: {_evidence(limit, chosen, alone, ceiling, device)}; {use}."
    return Verdict(sentence=sentence, limit=limit, loader=chosen["loader"], xla=chosen["xla"])


def _judge_loaders(rows: Sequence[Row]) -> Verdict | None:
    """Where no step was measured: how the loaders alone rank."""
    if len(rows) < 2:
        return None
    best = max(rows, key=lambda row: row["images_per_s"])
    words = []
    for row in sorted(rows, key=lambda row: -row["images_per_s"]):
        if row is best:
            continue
        ratio = ratio_of_rows(best, row)
        interval = "" if ratio.low is None else f" (99 % interval {ratio.low:.3f} to {ratio.high:.3f})"
        if slower(row, best):
            words.append(f"{ratio.value:.3f} times as fast as {row['name']}{interval}")
        else:
            how = "equal to" if interval else f"not told apart by {ratio.pairs} rounds from"
            words.append(f"{how} {row['name']}{interval}")
    return Verdict(sentence=f"{best['name']} is {'; '.join(words)}.")


def limit_of(coupled: float, loader_alone: float, step_alone: float) -> Limit:
    """What holds back ``coupled`` (img/s), from the rates of the loader and of the step alone.

    With room for both, the coupled rate is that of the slower one; when it is well below,
    they take the same cores from each other.
    """
    if coupled < (1 - COUPLED_LOSS) * min(loader_alone, step_alone):
        return "host-bound"
    if loader_alone < (1 - BALANCED_WITHIN) * step_alone:
        return "input-bound"
    if step_alone < (1 - BALANCED_WITHIN) * loader_alone:
        return "compute-bound"
    return "balanced"


def slower(row: Row, than: Row) -> bool:
    """Whether ``row`` is surely slower: its paired ratio's interval lies below 1, or, where there
    are too few rounds for an interval, it is slower by more than the noise of a round."""
    ratio = ratio_of_rows(row, than)
    if ratio.high is None:
        return ratio.value < 1 - CLOSE_IN_FEW_ROUNDS
    return ratio.high < 1


def _evidence(limit: Limit, chosen: Row, alone: Row, ceiling: Row, device: str) -> str:
    rates = (
        f"together {chosen['images_per_s']:.0f} img/s, the loader alone {alone['images_per_s']:.0f}, "
        f"the step alone {ceiling['images_per_s']:.0f}, waiting for data {100 * chosen['wait_share']:.0f} %"
    )
    if limit == "input-bound":
        return f"the loader is the limit ({rates})"
    if limit == "compute-bound":
        return f"the step is the limit ({rates})"
    if limit == "balanced":
        return f"loader and step are equally fast ({rates})"
    where = (
        "the loader and the step take the cores from each other"
        if device == "cpu"
        else "together they are slower than either alone"
    )
    return f"{where} ({rates})"


def _why(chosen: Row, trained: Sequence[Row], level: Sequence[Row]) -> str:
    """What the chosen setting gains, what it ties with, and when its compiling is earned back."""
    words = []
    others = [row for row in level if row is not chosen]
    if others:
        names = ", ".join(f"{row['loader']}/{row['xla']}" for row in others)
        words.append(f"not slower than {names}, as far as this run can tell")
    off = next((r for r in trained if r["loader"] == chosen["loader"] and r["xla"] == "off"), None)
    if off is not None and chosen["xla"] != "off":
        words.append(f"{chosen['images_per_s'] / off['images_per_s']:.1f} times off")
        words.append(_earned_back(chosen, off))
    return f" ({'; '.join(words)})" if words else ""


def _earned_back(chosen: Row, off: Row) -> str:
    """After how many steps the time spent before the first steady step is made up."""
    extra_s = (chosen["compile_s"] or 0.0) - (off["compile_s"] or 0.0)
    gained_s = off["median_step_s"] - chosen["median_step_s"]
    if gained_s <= 0:
        return "its compiling is not earned back"
    steps = math.ceil(max(extra_s, 0) / gained_s)
    return f"its {max(extra_s, 0):.1f} s of compiling are earned back after {steps} steps"


def _find(rows: Sequence[Row], **wanted: Any) -> Row | None:
    return next((row for row in rows if all(row[name] == value for name, value in wanted.items())), None)
