"""tools/compare.py: what its figures are computed from, and a whole comparison through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.command import run, sentence
from tests.data import Data
from tools.measure import windows
from tools.measure.cells import Cell, order_of_round, plan_cells
from tools.measure.proof import first_difference
from tools.measure.stats import paired_ratio
from tools.measure.summary import summarize
from tools.measure.verdict import judge, limit_of, slower
from tools.measure.windows import Limits, Window, is_warm, measure


class Clock:
    """Time that passes only when somebody spends it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(windows.time, "perf_counter", lambda: self.now)

    def spend(self, seconds: float) -> None:
        self.now += seconds


class TestWindows:
    def test_rates_and_waits_are_those_that_were_spent(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = Clock(monkeypatch)
        run = measure(
            take=lambda: clock.spend(0.03),
            step=lambda _: clock.spend(0.01),
            wait_for_device=lambda _: clock.spend(0.0),
            limits=Limits(measure_s=2.0, warm_up_s=60.0, buffered_batches=4),
        )
        assert run.steady
        assert sum(window.seconds for window in run.measured) >= 2.0
        for window in run.measured:
            assert window.steps_per_s == pytest.approx(25)
            assert window.wait_s / window.seconds == pytest.approx(0.75)
        assert len(run.step_s) == len(run.wait_s) == sum(window.steps for window in run.windows)

    def test_time_that_the_device_still_needed_belongs_to_the_window(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = Clock(monkeypatch)
        queued: list[int] = []

        def wait(_: Any) -> None:
            clock.spend(0.05 * len(queued))
            queued.clear()

        def step(_: Any) -> None:
            clock.spend(0.005)
            queued.append(1)

        run = measure(lambda: None, step, wait, Limits(measure_s=2.0, warm_up_s=60.0, buffered_batches=0))
        assert run.measured[-1].steps_per_s == pytest.approx(1 / 0.055)

    def test_a_warm_up_lasts_until_rates_are_steady(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = Clock(monkeypatch)
        steps = iter(range(100_000))

        def step(_: Any) -> None:
            # Twice as slow at first, and faster with every step until the hundredth.
            clock.spend(0.01 * max(1.0, 2.0 - next(steps) / 100))

        run = measure(
            lambda: None, step, lambda _: None, Limits(measure_s=1.0, warm_up_s=60.0, buffered_batches=0)
        )
        assert run.steady
        assert all(window.steps_per_s == pytest.approx(100, rel=0.1) for window in run.measured)

    def test_a_warm_up_that_never_ends_is_cut_off_and_marked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = Clock(monkeypatch)
        count = iter(range(10_000))
        run = measure(
            lambda: None,
            lambda _: clock.spend(0.3 if next(count) % 2 else 0.9),
            lambda _: None,
            Limits(measure_s=1.0, warm_up_s=5.0, buffered_batches=0),
        )
        assert not run.steady
        assert run.measured

    @pytest.mark.parametrize(
        ("rates", "compiles", "buffered", "warm"),
        [
            ((4, 4, 4), (0, 0, 0), 0, True),
            ((4, 4), (0, 0), 0, False),
            ((4, 4, 6), (0, 0, 0), 0, False),
            ((4, 4, 4), (0, 1, 0), 0, False),
            ((9, 4, 4, 4), (1, 0, 0, 0), 0, True),
            ((9, 4, 4, 4), (0, 0, 0, 0), 10, False),
            ((9, 9, 4, 4, 4), (0, 0, 0, 0, 0), 10, True),
        ],
    )
    def test_is_warm(self, rates: Any, compiles: Any, buffered: int, warm: bool) -> None:
        run = [
            Window(steps=r, seconds=1.0, wait_s=0.0, compiles=c) for r, c in zip(rates, compiles, strict=True)
        ]
        assert is_warm(run, buffered) is warm


class TestCells:
    def test_every_loader_with_every_mode_and_both_alone(self) -> None:
        cells = plan_cells(("tfdata", "dali"), ("off", "jit", "auto"))
        assert len(cells) == len(set(cells)) == 6 + 3 + 2
        assert {(c.loader, c.xla) for c in cells if c.kind == "train"} == {
            (loader, xla) for loader in ("tfdata", "dali") for xla in ("off", "jit", "auto")
        }
        assert {c.xla for c in cells if c.kind == "ceiling"} == {"off", "jit", "auto"}

    def test_rounds_alternate(self) -> None:
        cells = plan_cells(("tfdata", "dali"), ("off",))
        assert order_of_round(cells, 0) == cells == order_of_round(cells, 2)
        assert order_of_round(cells, 1) == cells[::-1]


class TestStats:
    def test_interval_holds_the_ratio_and_not_one(self) -> None:
        random = np.random.default_rng(0)
        machine = random.uniform(0.5, 1.5, 12)
        a, b = 100 * machine * random.normal(1, 0.01, 12), 110 * machine * random.normal(1, 0.01, 12)
        ratio = paired_ratio(a.tolist(), b.tolist())
        assert ratio.low is not None
        assert ratio.high is not None
        assert ratio.low <= ratio.value <= ratio.high
        assert ratio.low < 100 / 110 < ratio.high
        assert ratio.covers_one is False

    def test_equal_things_are_equal(self) -> None:
        """A 99 % interval of the median from 8 pairs of the same thing holds 1 nearly always."""
        random = np.random.default_rng(1)
        covered = [
            paired_ratio(random.normal(100, 3, 8).tolist(), random.normal(100, 3, 8).tolist()).covers_one
            for _ in range(100)
        ]
        assert sum(map(bool, covered)) >= 95

    def test_few_pairs_give_no_interval(self) -> None:
        ratio = paired_ratio([1.0] * 7, [2.0] * 7)
        assert (ratio.value, ratio.low, ratio.covers_one) == (0.5, None, None)

    def test_pairs_must_match(self) -> None:
        with pytest.raises(ValueError, match="as many values on both sides: 2 and 1"):
            paired_ratio([1.0, 2.0], [1.0])


class TestVerdict:
    @pytest.mark.parametrize(
        ("coupled", "loader", "step", "limit"),
        [
            (500, 500, 5000, "input-bound"),
            (500, 5000, 500, "compute-bound"),
            (500, 500, 520, "balanced"),
            (500, 540, 500, "balanced"),
            (300, 500, 5000, "host-bound"),
            (300, 5000, 500, "host-bound"),
        ],
    )
    def test_limit(self, coupled: float, loader: float, step: float, limit: str) -> None:
        assert limit_of(coupled, loader, step) == limit

    def _row(
        self, kind: str, loader: str | None, xla: str | None, rates: list[float], step_s: float = 0.1
    ) -> Any:
        return {
            "kind": kind, "loader": loader, "xla": xla, "images_per_s": float(np.median(rates)),
            "images_per_s_rounds": rates, "wait_share": 0.4, "compile_s": 3.0 if xla == "jit" else 0.0,
            "median_step_s": step_s,
        }  # fmt: skip

    def _rows(self, rates: dict[tuple[str, str], list[float]]) -> list[Any]:
        return [
            self._row("loader", "tfdata", None, [1000.0]),
            self._row("loader", "dali", None, [1100.0]),
            self._row("ceiling", None, "off", [3000.0]),
            self._row("ceiling", None, "jit", [4000.0]),
            *(
                self._row("train", loader, xla, value, 0.05 if xla == "jit" else 0.1)
                for (loader, xla), value in rates.items()
            ),
        ]

    def test_names_the_best_and_what_it_gains(self) -> None:
        rows = self._rows({("tfdata", "off"): [500.0], ("tfdata", "jit"): [600.0], ("dali", "jit"): [1000.0]})
        verdict = judge(rows, "cpu")
        assert verdict is not None
        assert (verdict.loader, verdict.xla, verdict.limit) == ("dali", "jit", "input-bound")
        assert "use --loader dali --xla jit" in verdict.sentence

    def test_of_those_that_tie_the_simplest(self) -> None:
        rows = self._rows({("tfdata", "off"): [980.0], ("tfdata", "jit"): [1000.0], ("dali", "off"): [990.0]})
        verdict = judge(rows, "cpu")
        assert verdict is not None
        assert (verdict.loader, verdict.xla) == ("tfdata", "off")
        assert "not slower than tfdata/jit, dali/off" in verdict.sentence

    def test_compiling_that_is_earned_back_says_when(self) -> None:
        rows = self._rows({("tfdata", "off"): [500.0], ("tfdata", "jit"): [900.0]})
        verdict = judge(rows, "cpu")
        assert verdict is not None
        # 3 s of compiling, and 0.05 s gained a step.
        assert "1.8 times off" in verdict.sentence
        assert "earned back after 60 steps" in verdict.sentence

    def test_one_round_ranks_only_what_is_far_apart(self) -> None:
        a, b = self._row("train", "x", "off", [880.0]), self._row("train", "y", "off", [1000.0])
        assert not slower(a, b)
        a["images_per_s_rounds"] = [800.0]
        assert slower(a, b)

    def test_many_rounds_rank_what_differs_in_every_pair(self) -> None:
        machine = np.random.default_rng(0).uniform(0.5, 2, 10)
        a = self._row("train", "x", "off", (960 * machine).tolist())
        b = self._row("train", "y", "off", (1000 * machine).tolist())
        assert slower(a, b)
        assert not slower(b, a)

    def test_nothing_measured_gives_no_verdict(self) -> None:
        assert judge([self._row("loader", "tfdata", None, [1.0])], "cpu") is None


def test_summary_counts_the_measured_windows_only() -> None:
    window = {"wait_s": 0.5, "compiles": 0, "seconds": 1.0}
    one_round = {
        "decode": "d", "first_step_s": 2.0, "steady": True, "peak_rss_mib": 10.0, "warm_up_windows": 1,
        "compiles": [{"name": "x", "seconds": 1.5, "at": 0.0}],
        "windows": [{**window, "steps": 1}, {**window, "steps": 3}, {**window, "steps": 5}],
        "step_s": [9.0] + [0.25] * 8, "wait_s": [0.0] * 9,
    }  # fmt: skip
    ceiling = {**one_round, "decode": None, "windows": [{**window, "steps": 1}, {**window, "steps": 16}]}
    train, top = Cell(kind="train", loader="tfdata", xla="off"), Cell(kind="ceiling", xla="off")
    rows = summarize([train, top], {train: [one_round], top: [ceiling]}, batch_size=10)
    assert rows[0]["images_per_s"] == pytest.approx(40)
    assert rows[0]["wait_share"] == pytest.approx(0.5)
    assert rows[0]["ceiling_share"] == pytest.approx(40 / 160)
    assert rows[0]["compile_s"] == 1.5
    assert rows[0]["step_s"] == [0.25] * 8
    assert rows[1]["ceiling_share"] is None
    assert rows[1]["wait_share"] is None


class TestProof:
    def test_equal_batches(self) -> None:
        batch = [np.zeros((2, 3), np.uint8), np.array([np.nan, 1.0], np.float32)]
        assert first_difference(batch, [part.copy() for part in batch], ("a", "b"), ("x", "y")) is None

    def test_first_difference_is_named(self) -> None:
        ours = [np.zeros((2, 2, 2, 3), np.uint8)]
        theirs = [ours[0].copy()]
        theirs[0][1, 0, 1, 2] = 7
        assert (
            first_difference(ours, theirs, ("image",), ("x", "y")) == "image[1, 0, 1, 2]: 0 from x, 7 from y"
        )

    def test_type_and_shape_count(self) -> None:
        words = first_difference([np.zeros(2, np.uint8)], [np.zeros(2, np.int32)], ("tokens",), ("x", "y"))
        assert words == "tokens: uint8[2] from x, int32[2] from y"


@pytest.mark.timeout(600)
def test_whole_comparison(shards: Data, tmp_path: Path, backend: str) -> None:
    loaders, modes = {"tfdata": (["tfdata"], ["off"]), "dali": (["tfdata", "dali"], ["off", "jit"])}[backend]
    out = tmp_path / "result.json"
    done = run(
        *("tools/compare.py", "--data", shards.pattern, "--batch-size", "16", "--quick", "--out", out),
        *("--loader", *loaders, "--xla", *modes),
        timeout_s=500,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_bytes())
    assert result["verdict"].rstrip(".") in " ".join(done.stdout.split())
    cells = {(cell["kind"], cell["loader"], cell["xla"]): cell for cell in result["cells"]}
    assert set(cells) == {(c.kind, c.loader, c.xla) for c in plan_cells(loaders, modes)}
    for (kind, _, xla), cell in cells.items():
        assert cell["images_per_s"] > 0
        assert len(cell["step_s"]) == sum(
            w["steps"] for r in cell["rounds"] for w in r["windows"][r["warm_up_windows"] :]
        )
        assert (cell["compile_s"] or 0) > 0 if xla == "jit" else not cell["compile_s"]
        if kind == "train":
            assert cell["ceiling_share"] == pytest.approx(
                cell["images_per_s"] / cells["ceiling", None, xla]["images_per_s"]
            )
            assert 0 <= cell["wait_share"] <= 1
    if backend == "dali":
        assert result["proof"]["records"] == 144
        assert result["proof"]["parts"] == ["image", "tokens", "image_id"]
        assert "give the same 144 records, bit for bit" in done.stderr
        assert "on the host" in cells["train", "dali", "off"]["decode"]


MISTAKES = {
    "no match": (("--data", "nothing-*"), "--data 'nothing-*' matches no file"),
    "unknown loader": (("--loader", "torch"), "--loader must be one of tfdata, dali: 'torch'"),
    "unknown mode": (("--xla", "fast"), "'fast'"),
    "twice": (("--xla", "off", "off"), "--xla names one twice"),
    "no time": (("--measure-s", "0"), "--measure-s must be from 0.1 to 3600 seconds: 0"),
    "nowhere": (("--out", "no/where.json"), "there is no folder no"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence(name: str) -> None:
    arguments, words = MISTAKES[name]
    assert words in sentence(run("tools/compare.py", *arguments))


def test_a_mistake_found_in_a_cell_is_one_sentence(shards: Data) -> None:
    done = run(
        "tools/compare.py",
        "--data",
        shards.pattern,
        "--device",
        "gpu",
        environment={"CUDA_VISIBLE_DEVICES": ""},
    )
    assert "--device gpu: TensorFlow sees no GPU" in sentence(done)
