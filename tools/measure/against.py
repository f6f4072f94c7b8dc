"""A result held against an earlier one: what got faster or slower, and whether that can be said at all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tools.measure.stats import CONFIDENCE, LEAST_PAIRS
from tools.measure.verdict import CLOSE_IN_FEW_ROUNDS

Change = Literal["faster", "slower", "equal"]

_RUN_SETTINGS = {
    # Which cells there are, and how long and how often they are measured.
    *("loader", "xla", "kinds", "sweep", "quick", "rounds", "budget_s", "measure_s", "warm_up_s"),
    # What is done before a measurement begins.
    *("allow_different", "trust_data"),
    # Where things lie, and what is written.
    *("data", "style", "index_dir", "out", "html", "against", "fail_if_slower"),
    # Guessed from the data or given: what was used in the end stands in the data's fingerprint.
    *("image_feature", "target_feature", "id_feature", "max_len", "height", "width", "channels"),
    *("num_classes", "alphabet"),
}
"""Flags that do not change what a cell measures. Every other one must be the same in both results."""

_MACHINE = ("processor", "cores", "usable_cores", "memory_gib", "system", "gpus")
"""What the fingerprint of the machine is taken over, besides the versions."""

_RESAMPLES = 10_000
_ABSENT = "absent"
_SHORT = 12
"""Digits of a fingerprint that are shown."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CellChange:
    """What became of one cell."""

    cell: str
    """Its name."""
    ratio: float
    """New over old, of the median rates: 1.1 is ten percent faster."""
    low: float | None
    high: float | None
    """Ends of the ratio's 99 % interval; None with fewer than ``LEAST_PAIRS`` rounds on a side."""
    verdict: Change
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Against:
    """A whole result held against an earlier one."""

    cells: tuple[CellChange, ...]
    """Those in both, in the new result's order."""
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    """Names of the cells that the other one lacks."""
    sentence: str


def compare_results(old: Mapping[str, Any], new: Mapping[str, Any]) -> Against:
    """What got faster or slower from ``old`` to ``new``, both as docs/result.md describes them.

    The intervals hold the noise of rounds within each run. What changed between the runs and
    is not in the fingerprints (another room temperature, a neighbour on the same host) they
    can't hold: that is why small differences of results made on different days deserve doubt.
    Errors: ValueError with the reason and both values where the two can't be compared.
    """
    _check_comparable(old, new)
    before = {_key(row): row for row in old["cells"]}
    after = {_key(row): row for row in new["cells"]}
    changes = tuple(_change(before[key], after[key]) for key in after if key in before)
    only_old = tuple(row["name"] for key, row in before.items() if key not in after)
    only_new = tuple(row["name"] for key, row in after.items() if key not in before)
    return Against(
        cells=changes, only_old=only_old, only_new=only_new, sentence=_summary(changes, only_old, only_new)
    )


def slower_than(against: Against, share: float) -> list[CellChange]:
    """The cells that are surely slower by more than ``share`` (0.05 is 5 %).

    Surely: the whole interval lies below 1 - share; without an interval the ratio does, by
    more than the noise of a few rounds.
    """
    return [
        change
        for change in against.cells
        if (change.ratio + CLOSE_IN_FEW_ROUNDS if change.high is None else change.high) < 1 - share
    ]


def parse_percent(text: str) -> float:
    """The share that a percentage such as ``5%`` names: 0.05.

    Errors: ValueError for anything but a number from 0 to below 100 and the sign.
    """
    found = re.fullmatch(r"([0-9]{1,2}(?:\.[0-9]{1,6})?) ?%", text.strip())
    if found is None:
        raise ValueError(f"--fail-if-slower must be a percentage from 0% to below 100%, such as 5%: {text!r}")
    return float(found[1]) / 100


def ratio_of_medians(old: Sequence[float], new: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Median of ``new`` over median of ``old``, and the ends of its 99 % interval.

    The rounds of two runs are no pairs, so both samples are drawn anew, each by itself: the
    two-sample percentile bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap,
    1993, chapters 8 and 13), from a fixed seed.
    """
    before, after = np.asarray(old, float), np.asarray(new, float)
    ratio = float(np.median(after) / np.median(before))
    if min(len(before), len(after)) < LEAST_PAIRS:
        return ratio, None, None
    random = np.random.default_rng(0)
    medians = [
        np.median(rounds[random.integers(0, len(rounds), (_RESAMPLES, len(rounds)))], axis=1)
        for rounds in (before, after)
    ]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians[1] / medians[0], [tail, 1 - tail])
    return ratio, float(low), float(high)


def _check_comparable(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise ValueError where the figures differ for another reason than the code's speed."""
    ours, theirs = old["metadata"], new["metadata"]
    for package in sorted({*ours["versions"], *theirs["versions"]}):
        _check_same(f"version of {package}", ours["versions"].get(package), theirs["versions"].get(package))
    for name in _MACHINE:
        _check_same(f"machine's {name}", ours.get(name), theirs.get(name))
    _check_same("machine's fingerprint", _short(ours["fingerprint"]), _short(theirs["fingerprint"]))
    _check_same("device", old["device"], new["device"])
    if old["data"]["fingerprint"] != new["data"]["fingerprint"]:
        for name in ("records", "bytes", "shards"):
            _check_same(f"number of {name}", old["data"].get(name), new["data"].get(name))
        _check_all_same("schema's", old["data"].get("schema", {}), new["data"].get("schema", {}))
        _check_same(
            "data's fingerprint", _short(old["data"]["fingerprint"]), _short(new["data"]["fingerprint"])
        )
    _check_all_same(
        "flag",
        *(
            {_flag(name): value for name, value in result["config"].items() if name not in _RUN_SETTINGS}
            for result in (old, new)
        ),
    )
    _check_same_records(old["proof"], new["proof"])


def _check_same_records(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Shards of equal names and sizes may still hold other records; the proof's digest is over the records
    themselves, as the first loader gave them."""
    like = ("loaders", "records", "parts")
    comparable = all(_plain(old[name]) == _plain(new[name]) for name in like)
    if comparable and not (old.get("difference") or new.get("difference")):
        _check_same("digest of the first records", _short(old["sha256"]), _short(new["sha256"]))


def _check_all_same(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    for name in sorted({*old, *new}):
        _check_same(f"{what} {name}", old.get(name, _ABSENT), new.get(name, _ABSENT))


def _check_same(what: str, old: Any, new: Any) -> None:
    old, new = _plain(old), _plain(new)
    if old != new:
        raise ValueError(
            f"the results can't be compared: the {what} is {_words(new)}, and was {_words(old)} before"
        )


def _plain(value: Any) -> Any:
    """JSON's own types, so that a result in memory equals one from a file."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _words(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(_words, value)) or "none"
    return str(value)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _short(fingerprint: str) -> str:
    return fingerprint[:_SHORT]


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes a cell that cell: names are short, and two loaders of one's own may share one."""
    settings = row.get("settings") or {}
    return row["kind"], row["loader"], row["xla"], tuple(sorted(settings.items()))


def _change(old: Mapping[str, Any], new: Mapping[str, Any]) -> CellChange:
    rounds = old["images_per_s_rounds"], new["images_per_s_rounds"]
    ratio, low, high = ratio_of_medians(*rounds)
    verdict = _verdict(ratio, low, high)
    return CellChange(
        cell=new["name"],
        ratio=ratio,
        low=low,
        high=high,
        verdict=verdict,
        sentence=f"{new['name']}: {_how(verdict, ratio, low, high, min(map(len, rounds)))}",
    )


def _verdict(ratio: float, low: float | None, high: float | None) -> Change:
    if low is None or high is None:
        low, high = ratio * (1 - CLOSE_IN_FEW_ROUNDS), ratio / (1 - CLOSE_IN_FEW_ROUNDS)
    if high < 1:
        return "slower"
    return "faster" if low > 1 else "equal"


def _how(verdict: Change, ratio: float, low: float | None, high: float | None, rounds: int) -> str:
    change = f"{100 * (ratio - 1):+.1f} %"
    if low is None or high is None:
        sure = f"from {rounds} round{'s' if rounds > 1 else ''} no interval"
    else:
        sure = f"99 % interval {100 * (low - 1):+.1f} to {100 * (high - 1):+.1f} %"
    if verdict == "equal":
        return f"equal as far as these runs can tell ({change}, {sure})"
    return f"{verdict} ({change}, {sure})"


def _summary(changes: Sequence[CellChange], only_old: Sequence[str], only_new: Sequence[str]) -> str:
    if not changes:
        return "no cell is in both results"
    counts = {
        verdict: sum(each.verdict == verdict for each in changes) for verdict in ("slower", "faster", "equal")
    }
    words = [", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)]
    words += [f"only in the old result: {'; '.join(only_old)}"] if only_old else []
    words += [f"only in the new result: {'; '.join(only_new)}"] if only_new else []
    return f"of {len(changes)} cell{'s' if len(changes) > 1 else ''} in both results {'. '.join(words)}"
