"""tools/compare.py: what its figures are computed from, and a whole comparison through the command line."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.command import run, sentence
from tests.data import Data
from tools.measure import rounds as rounds_module
from tools.measure import windows
from tools.measure.cells import Cell, order_of_round, plan_cells, plan_sweep
from tools.measure.config import CompareConfig
from tools.measure.proof import first_difference
from tools.measure.stats import paired_ratio
from tools.measure.summary import compare_pairs, summarize
from tools.measure.sweep import describe_sweep
from tools.measure.verdict import judge, limit_of, slower
from tools.measure.windows import Limits, Window, is_warm, measure

KINDS = ("train", "loader", "ceiling")


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
            Window(steps=r, seconds=1.0, wait_s=0.0, call_s=0.0, sync_s=0.0, compiles=c)
            for r, c in zip(rates, compiles, strict=True)
        ]
        assert is_warm(run, buffered) is warm


class TestCells:
    def test_every_loader_with_every_mode_and_both_alone(self) -> None:
        cells = plan_cells(("tfdata", "dali"), ("off", "jit", "auto"), KINDS)
        assert len(cells) == len(set(cells)) == 6 + 3 + 2
        assert {(c.loader, c.xla) for c in cells if c.kind == "train"} == {
            (loader, xla) for loader in ("tfdata", "dali") for xla in ("off", "jit", "auto")
        }
        assert {c.xla for c in cells if c.kind == "ceiling"} == {"off", "jit", "auto"}

    def test_rounds_alternate(self) -> None:
        cells = plan_cells(("tfdata", "dali"), ("off",), KINDS)
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


def _round(measured_steps: list[int], warm_up_steps: int = 1, **changes: Any) -> dict[str, Any]:
    """A raw round whose windows last a second each, half of it waiting and 0.4 s in calls of the step."""
    window = {"seconds": 1.0, "wait_s": 0.5, "call_s": 0.4, "sync_s": 0.05, "compiles": 0}
    steps = sum(measured_steps)
    samples = {
        "first_from_s": 0.0, "at_s": [1.0, 9.0], "cores_busy": [[0.5, 1.0]] * 2, "process_cores": [0.5] * 2,
        "other_cores": [0.0] * 2, "rss_mib": [5.0] * 2, "read_mib": None, "energy_j": None, "gpu": None,
        "energy_of": [], "measured_from_s": 1.0, "measured_to_s": 9.0,
    }  # fmt: skip
    return {
        "decode": "d", "first_step_s": 2.0, "steady": True, "peak_rss_mib": 10.0, "warm_up_windows": 1,
        "copy_s": 0.0, "compiles": [{"name": "x", "seconds": 1.5, "step": -1}], "disturbed": False,
        "windows": [{**window, "steps": n} for n in (warm_up_steps, *measured_steps)],
        "step_s": [9.0] * warm_up_steps + [0.25] * steps, "wait_s": [0.0] * (warm_up_steps + steps),
        "samples": samples, **changes,
    }  # fmt: skip


class TestSummary:
    def _rows(self, **changes: Any) -> list[dict[str, Any]]:
        train, top = Cell(kind="train", loader="tfdata", xla="off"), Cell(kind="ceiling", xla="off")
        alone = Cell(kind="loader", loader="tfdata")
        rounds = {train: [_round([3, 5], **changes)], top: [_round([16])], alone: [_round([32])]}
        return summarize([train, top, alone], rounds, batch_size=10, records=100, device="cpu", cores=2)

    def test_only_the_measured_windows_count(self) -> None:
        train, top, _ = self._rows()
        assert train["images_per_s"] == pytest.approx(40)
        assert train["wait_share"] == pytest.approx(0.5)
        assert train["ceiling_share"] == pytest.approx(40 / 160)
        assert train["compile_s"] == 1.5
        assert train["step_s"] == [0.25] * 8
        assert top["ceiling_share"] is None
        assert top["wait_share"] is None

    def test_the_ledger_adds_up(self) -> None:
        ledger = self._rows(copy_s=0.01)[0]["ledger"]
        # 2 s in all: 1 waiting, 0.9 in and behind the step, of which 8 copies of 0.01 s.
        assert ledger == pytest.approx(
            {"wait_s": 1.0, "copy_s": 0.08, "compute_s": 0.82, "compile_s": 0.0, "host_s": 0.1, "wall_s": 2.0}
        )
        assert sum(value for name, value in ledger.items() if name != "wall_s") == pytest.approx(
            ledger["wall_s"]
        )

    def test_a_compile_in_the_measured_time_is_no_computing(self) -> None:
        compiles = [{"name": "x", "seconds": 0.5, "step": 4}, {"name": "x", "seconds": 7.0, "step": 0}]
        ledger = self._rows(compiles=compiles)[0]["ledger"]
        assert ledger["compile_s"] == pytest.approx(0.5)
        assert ledger["compute_s"] == pytest.approx(0.4)

    def test_prediction_beside_measurement(self) -> None:
        prediction = self._rows()[0]["prediction"]
        # Step and loader alone: 160 and 320 img/s, each on half a core of two.
        assert prediction["images_per_s"] == pytest.approx(160)
        assert prediction["measured_over_predicted"] == pytest.approx(0.25)
        assert not prediction["agrees"]
        assert "75 % less" in prediction["sentence"]

    def test_pairs_of_one_kind_only(self) -> None:
        cells = [Cell(kind="loader", loader=name) for name in ("a", "b")]
        rounds = {cells[0]: [_round([4])] * 8, cells[1]: [_round([5])] * 8}
        rows = summarize(cells, rounds, batch_size=10, records=100, device="cpu", cores=2)
        (pair,) = compare_pairs(rows)
        assert (pair["a"], pair["b"], pair["equal"], pair["pairs"]) == ("a alone", "b alone", False, 8)
        assert pair["value"] == pytest.approx(0.8)


class TestRounds:
    def _run(self, monkeypatch: pytest.MonkeyPatch, rates: Any, **flags: Any) -> tuple[Any, list[str]]:
        """Rounds of two loaders alone: each takes ten seconds and gives ``rates(loader, n)`` steps."""
        ran: list[str] = []
        clock = iter(range(0, 100_000, 10))

        def run_cell(config: Any, cell: Cell, *_: Any) -> dict[str, Any]:
            ran.append(str(cell.loader))
            steps = rates(cell.loader, ran.count(str(cell.loader)))
            return {**_round([steps]), "sampling_cost_share": 0.0}

        monkeypatch.setattr(rounds_module, "_run_cell", run_cell)
        monkeypatch.setattr(rounds_module.time, "monotonic", lambda: next(clock))
        config = CompareConfig(**{"loader": ("tfdata", "dali"), "kinds": ("loader",), **flags})
        cells = plan_cells(config.loader, config.xla, config.kinds)
        return rounds_module.run_rounds(config, cells, [], lambda _: None), ran

    def test_blocks_alternate(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rounds, ran = self._run(monkeypatch, lambda *_: 5, rounds=3)
        assert ran == ["tfdata", "dali", "dali", "tfdata", "tfdata", "dali"]
        assert rounds.complete

    def test_stops_when_the_answer_is_sure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rounds, ran = self._run(monkeypatch, lambda loader, n: 50 if loader == "dali" else 60, rounds=40)
        assert len(ran) == 16
        assert "told apart" in rounds.why_stopped

    def test_goes_on_while_it_is_not(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _, ran = self._run(
            monkeypatch, lambda loader, n: 50 + 8 * (n % 2 if loader == "dali" else 0), rounds=12
        )
        assert len(ran) == 24

    def test_the_budget_ends_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rounds, ran = self._run(monkeypatch, lambda *_: 5, rounds=40, budget_s=150)
        assert 2 <= len(ran) < 16
        assert "--budget-s 150" in rounds.why_stopped

    def test_ctrl_c_keeps_what_is_finished(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def rates(loader: str, n: int) -> int:
            if n == 3:
                raise KeyboardInterrupt
            return 5

        rounds, _ = self._run(monkeypatch, rates, rounds=8)
        assert not rounds.complete
        assert [len(done) for done in rounds.of.values()] == [2, 2]

    @pytest.mark.parametrize(
        ("flags", "repeats"),
        [({}, 4), ({"quick": True}, 0), ({"budget_s": 1000.0}, 4), ({"budget_s": 0.5}, 0)],
    )
    def test_disturbed_rounds_are_repeated_where_there_is_time(
        self, monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any], repeats: int
    ) -> None:
        ran: list[str] = []

        def run(config: CompareConfig, cell: Cell, *_: object) -> dict[str, Any]:
            ran.append(cell.name)
            time.sleep(0.05)
            return {**_round([5]), "disturbed": True, "sampling_cost_share": 0.0}

        monkeypatch.setattr(rounds_module, "_run_cell", run)
        cells = [Cell(kind="loader", loader=name) for name in ("tfdata", "dali")]
        rounds = rounds_module.run_rounds(CompareConfig(rounds=2, **flags), cells, [], lambda _: None)
        kept = [each for results in rounds.of.values() for each in results]
        assert sum(each.get("repeated", False) for each in kept) == repeats
        assert len(ran) == len(kept) + repeats


def test_a_sweep_changes_only_its_own_setting() -> None:
    cells = plan_sweep(("tfdata",), {"batch_size": (32, 64), "parallel": (1,)})
    assert [cell.changes() for cell in cells] == [
        {"loader": "tfdata", "xla": "off", "batch_size": 32},
        {"loader": "tfdata", "xla": "off", "batch_size": 64},
        {"loader": "tfdata", "xla": "off", "parallel_calls": 1, "dali_threads": 1},
    ]
    points = describe_sweep({cells[0]: [10.0, 12.0], cells[1]: [20.0, 22.0], cells[2]: [5.0]})
    assert points is not None
    assert points["points"][0] == {
        "loader": "tfdata",
        "settings": {"batch_size": 32},
        "images_per_s": 11.0,
        "images_per_s_rounds": [10.0, 12.0],
    }


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
    assert set(cells) == {(c.kind, c.loader, c.xla) for c in plan_cells(loaders, modes, KINDS)}
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
    "unknown loader": (
        ("--loader", "torch"),
        "--loader must be one of tfdata, dali, cached, none, or your own",
    ),
    "unknown mode": (("--xla", "fast"), "'fast'"),
    "twice": (("--xla", "off", "off"), "--xla names one twice"),
    "no time": (("--measure-s", "0"), "--measure-s must be from 0.1 to 86400 seconds: 0"),
    "nowhere": (("--out", "no/where.json"), "there is no folder no"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence(name: str) -> None:
    arguments, words = MISTAKES[name]
    assert words in sentence(run("tools/compare.py", *arguments))


def test_loaders_alone_give_a_result_that_can_be_shown(shards: Data, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    done = run(
        *("tools/compare.py", "--data", shards.pattern, "--batch-size", "16", "--quick", "--out", out),
        *("--kinds", "loader", "--loader", "tfdata", "cached", "--measure-s", "0.3"),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_bytes())["use"] is None
    shown = run("tools/report.py", out, "--markdown", tmp_path / "result.md")
    assert shown.returncode == 0, shown.stderr
    assert "cached alone" in (tmp_path / "result.md").read_text()


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
