"""tools/measure/patterns.py: series whose truth is known, noise that is no pattern, properties."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.measure.patterns import Pattern, name_pattern
from tools.measure.periods import find_period

Floats = npt.NDArray[np.float64]
Make = Callable[[np.random.Generator], Floats]

SEEDS = range(5)


def noisy(
    random: np.random.Generator, steps: int = 300, sigma: float = 0.1, typical_s: float = 0.02
) -> Floats:
    return typical_s * np.exp(random.normal(0, sigma, steps))


def spiky(
    period: float,
    times: float = 5.0,
    *,
    steps: int = 300,
    sigma: float = 0.1,
    jitter: int = 0,
    walk: int = 0,
    missing: float = 0.0,
    strangers: int = 0,
    width: int = 1,
) -> Make:
    """Spikes every ``period`` steps: displaced by up to ``jitter`` each, or by ``walk`` more each time, some
    left out, and ``strangers`` anywhere."""

    def make(random: np.random.Generator) -> Floats:
        step_s, at = noisy(random, steps, sigma), float(random.integers(1, max(2, int(period))))
        places = list(random.integers(0, steps, strangers))
        while at < steps:
            if random.random() >= missing:
                places.append(int(at) + int(random.integers(-jitter, jitter + 1)))
            at += period + random.integers(-walk, walk + 1)
        for place in places:
            step_s[max(0, place) : place + width] *= times
        return step_s

    return make


def scattered(count: int, times: float = 12.0, *, steps: int = 300, sigma: float = 0.1) -> Make:
    def make(random: np.random.Generator) -> Floats:
        step_s = noisy(random, steps, sigma)
        step_s[random.choice(np.arange(20, steps), count, replace=False)] *= times
        return step_s

    return make


def changing(shape: Callable[[Floats], Floats], *, steps: int = 300, sigma: float = 0.1) -> Make:
    """``shape`` gives the typical step over the run's time from 0 to 1, relative to the begin's."""
    return lambda random: noisy(random, steps, sigma) * shape(np.linspace(0, 1, steps))


def remembering(memory: float, sigma: float, steps: int = 500) -> Make:
    """Noise in which each step is like the one before it."""

    def make(random: np.random.Generator) -> Floats:
        logs, fresh = np.zeros(steps), random.normal(0, sigma * np.sqrt(1 - memory**2), steps)
        for step in range(1, steps):
            logs[step] = memory * logs[step - 1] + fresh[step]
        return np.asarray(0.02 * np.exp(logs), float)

    return make


def begins_with(slow: dict[int, float], sigma: float = 0.1) -> Make:
    def make(random: np.random.Generator) -> Floats:
        step_s = noisy(random, sigma=sigma)
        for step, times in slow.items():
            step_s[step] *= times
        return step_s

    return make


def report(steps: int) -> Make:
    """The report that this project began with: a step of 150 s, then ten of 1 s, over and over."""
    return lambda random: np.where(np.arange(steps) % 11 == 0, 150.0, 1.0) * noisy(random, steps, 0.02, 1.0)


STEADY: dict[str, Make] = {
    "constant": lambda random: np.full(300, 0.02),
    "short": lambda random: noisy(random, 60, 0.3),
    "noise 10 %": lambda random: noisy(random, sigma=0.1),
    "noise 20 %": lambda random: noisy(random, sigma=0.2),
    "noise 30 %": lambda random: noisy(random, sigma=0.3),
    "long": lambda random: noisy(random, 3000, 0.3),
    "one outlier": scattered(1),
    "two outliers": scattered(2, 4.0, sigma=0.3),
    "rare outliers": scattered(4, 3.0, steps=2000),
    "half of the steps slow": lambda random: noisy(random) * np.where(random.random(300) < 0.5, 3.0, 1.0),
    "a third of the steps slow": lambda random: noisy(random) * np.where(random.random(300) < 0.35, 3.0, 1.0),
    "most steps slow": lambda random: noisy(random) * np.where(random.random(300) < 0.8, 3.0, 1.0),
    "noise with a memory": remembering(0.5, 0.2),
    "5 % slower in the end": changing(lambda time: 1 + 0.05 * time, sigma=0.05),
}
WARM_UP: dict[str, Make] = {
    "first step": begins_with({0: 100.0}),
    "five steps": begins_with(dict.fromkeys(range(5), 10.0), sigma=0.3),
    "decaying": begins_with({step: 1 + 6 * float(np.exp(-step / 4)) for step in range(30)}),
    "a few": begins_with({0: 300.0, 3: 20.0, 7: 20.0}),
    "with an outlier": begins_with({0: 100.0, 222: 6.0}),
}
PERIODIC: dict[str, tuple[Make, float]] = {
    "2": (spiky(2), 2),
    "3": (spiky(3), 3),
    "5": (spiky(5), 5),
    "11": (spiky(11), 11),
    "50": (spiky(50), 50),
    "fraction": (spiky(15.625), 15.625),
    "long fraction": (spiky(31.25, steps=1000), 31.25),
    "low": (spiky(10, 1.9), 10),
    "noise 30 %": (spiky(11, sigma=0.3), 11),
    "low in noise 30 %": (spiky(11, 4.5, sigma=0.3), 11),
    "jitter": (spiky(11, jitter=1), 11),
    "wandering": (spiky(20, walk=1, steps=600), 20),
    "missing": (spiky(11, missing=0.2), 11),
    "missing, fraction": (spiky(15.625, missing=0.1, steps=500), 15.625),
    "missing and jitter": (spiky(20, missing=0.15, jitter=1, steps=800), 20),
    "strangers": (spiky(20, strangers=3, steps=600), 20),
    "wide": (spiky(25, width=3), 25),
    "in a drift": (lambda random: spiky(11)(random) * np.linspace(1, 2, 300), 11),
    "report, three times": (report(33), 11),
    "report, ten times": (report(110), 11),
}
IRREGULAR: dict[str, Make] = {
    "4": scattered(4),
    "8": scattered(8),
    "15": scattered(15),
    "30": scattered(30),
    "60": scattered(60),
    "15 in noise 30 %": scattered(15, sigma=0.3),
    "8 in a long run": scattered(8, 200.0, steps=2000),
    "60 in a long run": scattered(60, 20.0, steps=2000),
}
DRIFT: dict[str, Make] = {
    "25 % slower": changing(lambda time: 1 + 0.25 * time),
    "50 % slower": changing(lambda time: 1 + 0.5 * time),
    "three times": changing(lambda time: 1 + 2 * time),
    "30 % faster": changing(lambda time: 1 - 0.3 * time),
    "twice, noise 30 %": changing(lambda time: 1 + time, sigma=0.3),
    "exponential": changing(lambda time: 4.0**time),
    "short": changing(lambda time: 1 + 0.3 * time, steps=60, sigma=0.05),
    "with outliers": lambda random: scattered(2)(random) * np.linspace(1, 1.5, 300),
}


def named(make: Make, seed: int, warm_up_steps: int = 10) -> Pattern:
    return name_pattern(make(np.random.default_rng(seed)).tolist(), warm_up_steps=warm_up_steps)


class TestKnownSeries:
    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("series", STEADY)
    def test_steady(self, series: str, seed: int) -> None:
        pattern = named(STEADY[series], seed)
        assert (pattern.name, pattern.period_steps, pattern.cause) == ("steady", None, None)

    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("series", WARM_UP)
    def test_warm_up_only(self, series: str, seed: int) -> None:
        assert named(WARM_UP[series], seed).name == "warm-up only"

    @pytest.mark.parametrize("series", ["first step", "five steps", "decaying"])
    def test_a_warm_up_in_one_piece_is_found_without_being_told(self, series: str) -> None:
        assert [named(WARM_UP[series], seed, warm_up_steps=0).name for seed in SEEDS] == [
            "warm-up only"
        ] * len(SEEDS)

    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("series", PERIODIC)
    def test_periodic_spikes(self, series: str, seed: int) -> None:
        make, period = PERIODIC[series]
        pattern = named(make, seed)
        assert pattern.name == "periodic spikes"
        within = 0.05 if series == "wandering" else 0.01
        assert pattern.period_steps == pytest.approx(period, rel=within)

    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("series", IRREGULAR)
    def test_irregular_spikes(self, series: str, seed: int) -> None:
        pattern = named(IRREGULAR[series], seed)
        assert (pattern.name, pattern.period_steps) == ("irregular spikes", None)

    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("series", DRIFT)
    def test_drift(self, series: str, seed: int) -> None:
        assert named(DRIFT[series], seed).name == "drift"


class TestChance:
    """How often noise is given a name; the rates stand in the assertions."""

    @pytest.mark.parametrize(
        "make",
        [
            lambda random: noisy(random, 100, 0.1),
            lambda random: noisy(random, 300, 0.3),
            scattered(1, 8.0),
            remembering(0.5, 0.1),
        ],
        ids=["10 %", "30 %", "outlier", "memory"],
    )
    def test_steady_runs_are_steady(self, make: Make) -> None:
        wrong = [seed for seed in range(300) if named(make, seed).name != "steady"]
        assert len(wrong) <= 3

    def test_noise_with_a_long_memory_is_seldom_called_drift(self) -> None:
        wrong = [seed for seed in range(200) if named(remembering(0.9, 0.1), seed).name != "steady"]
        assert len(wrong) <= 10

    @pytest.mark.parametrize("count", [3, 5, 20, 60])
    def test_spikes_in_random_places_have_no_period(self, count: int) -> None:
        random = np.random.default_rng(count)
        found = [
            find_period(np.sort(random.choice(300, count, replace=False)).tolist(), 300) for _ in range(500)
        ]
        assert sum(period is not None for period in found) <= 10


class TestCauses:
    def test_the_report_with_its_compile_log(self) -> None:
        step_s = report(55)(np.random.default_rng(0)).tolist()
        pattern = name_pattern(step_s, warm_up_steps=4, compile_steps=range(0, 55, 11))
        assert (pattern.name, pattern.period_steps, pattern.cause) == ("periodic spikes", 11.0, "recompiles")
        assert "every 11 steps 150 s instead of 1.00 s, 92 % of the time" in pattern.sentence
        assert "look for shapes or Python arguments that change" in pattern.sentence

    def test_the_report_without_a_log_says_what_to_look_for(self) -> None:
        pattern = named(report(55), 0, warm_up_steps=4)
        assert pattern.cause is None
        assert "cause unknown: look for recompiles" in pattern.sentence

    def test_a_log_that_lags_by_a_step(self) -> None:
        step_s = spiky(11)(np.random.default_rng(0))
        spikes = np.flatnonzero(step_s > 0.06)
        pattern = name_pattern(step_s.tolist(), warm_up_steps=5, compile_steps=[0, *(spikes + 1).tolist()])
        assert pattern.cause == "recompiles"

    def test_compiles_elsewhere_are_no_cause(self) -> None:
        step_s = spiky(11)(np.random.default_rng(0))
        spikes = np.flatnonzero(step_s > 0.06)
        pattern = name_pattern(step_s.tolist(), warm_up_steps=5, compile_steps=[0, *(spikes + 5).tolist()])
        assert pattern.cause is None

    def test_compiles_at_every_step_do_not_tell_spikes_apart(self) -> None:
        step_s = spiky(11)(np.random.default_rng(0)).tolist()
        assert name_pattern(step_s, warm_up_steps=5, compile_steps=range(300)).cause is None

    def test_checkpoints(self) -> None:
        step_s = noisy(np.random.default_rng(0))
        step_s[99::100] *= 20
        pattern = name_pattern(step_s.tolist(), warm_up_steps=5, checkpoint_steps=[99, 199, 299])
        assert (pattern.name, pattern.period_steps, pattern.cause) == ("periodic spikes", 100.0, "checkpoint")

    def test_an_epoch_that_is_no_whole_number_of_steps(self) -> None:
        pattern = name_pattern(
            spiky(15.625)(np.random.default_rng(1)).tolist(),
            warm_up_steps=5,
            epoch_steps=15.625,
            shuffle_refill_steps=16.0,
        )
        assert pattern.cause == "epoch end"
        assert "every 15.6 steps" in pattern.sentence

    def test_a_shuffle_buffer(self) -> None:
        pattern = name_pattern(
            spiky(16)(np.random.default_rng(1)).tolist(),
            warm_up_steps=5,
            epoch_steps=15.625,
            shuffle_refill_steps=16.0,
        )
        assert pattern.cause == "shuffle refill"

    def test_another_period_has_another_cause(self) -> None:
        step_s = spiky(16)(np.random.default_rng(1)).tolist()
        assert (
            name_pattern(step_s, warm_up_steps=5, epoch_steps=32.0, shuffle_refill_steps=15.0).cause is None
        )

    def test_two_ends_of_an_epoch_are_enough_where_it_is_known(self) -> None:
        step_s = noisy(np.random.default_rng(0), 100)
        step_s[[40, 80]] *= 8
        pattern = name_pattern(step_s.tolist(), warm_up_steps=5, epoch_steps=40.0)
        assert (pattern.name, pattern.period_steps, pattern.cause) == ("periodic spikes", 40.0, "epoch end")
        assert name_pattern(step_s.tolist(), warm_up_steps=5).name == "steady"

    def test_one_dear_recompile_is_no_outlier(self) -> None:
        step_s = noisy(np.random.default_rng(0))
        step_s[200] = 5.0
        pattern = name_pattern(step_s.tolist(), warm_up_steps=5, compile_steps=[200])
        assert (pattern.name, pattern.cause) == ("irregular spikes", "recompiles")
        assert "a spike without a period" in pattern.sentence


class TestSentences:
    def test_steady_mentions_outliers(self) -> None:
        sentence = named(scattered(1), 0).sentence
        assert sentence.startswith("steady: 19.8 ms a step")
        assert "apart from one outlier of up to" in sentence

    def test_two_kinds_of_steps(self) -> None:
        assert "of the steps take about" in named(STEADY["half of the steps slow"], 0).sentence

    def test_warm_up(self) -> None:
        assert "the first step took 2" in named(begins_with({0: 100.0}), 0).sentence

    def test_drift_says_how_much(self) -> None:
        sentence = named(changing(lambda time: 2.0**time, sigma=0.01), 0).sentence
        assert "steps went steadily from 20.7 ms to 39.6 ms (+91 %)" in sentence

    def test_a_sudden_change_says_where(self) -> None:
        sentence = named(changing(lambda time: np.where(time > 0.5, 1.5, 1.0)), 0).sentence
        assert "at once, about step 15" in sentence

    def test_too_few_steps(self) -> None:
        assert name_pattern([1.0] * 5, warm_up_steps=1).sentence == "steady as far as 5 steps can show"


times_s = st.lists(st.floats(0, 1e9, allow_nan=False), max_size=120)
places = st.lists(st.integers(-1, 200), max_size=20)
lengths = st.one_of(st.none(), st.floats(0.5, 500))


class TestProperties:
    @settings(max_examples=150, deadline=None)
    @given(times_s, st.integers(0, 150), st.tuples(places, places), st.tuples(lengths, lengths))
    def test_any_run_has_a_pattern(
        self,
        step_s: list[float],
        warm_up_steps: int,
        logged: tuple[list[int], list[int]],
        known: tuple[float | None, float | None],
    ) -> None:
        pattern = name_pattern(
            step_s,
            warm_up_steps=warm_up_steps,
            compile_steps=logged[0],
            checkpoint_steps=logged[1],
            epoch_steps=known[0],
            shuffle_refill_steps=known[1],
        )
        assert (pattern.period_steps is not None) == (pattern.name == "periodic spikes")
        assert pattern.sentence.startswith("steady" if pattern.name == "steady" else pattern.name)

    @settings(max_examples=60, deadline=None)
    @given(st.integers(2, 60), st.integers(1, 60), st.floats(2.5, 1000), st.integers(0, 2**32))
    def test_a_regular_period_is_found_exactly(
        self, period: int, phase: int, times: float, seed: int
    ) -> None:
        step_s = noisy(np.random.default_rng(seed), steps=8 * period + 60)
        step_s[phase::period] *= times
        pattern = name_pattern(step_s.tolist(), warm_up_steps=2)
        assert (pattern.name, pattern.period_steps) == ("periodic spikes", period)

    @settings(max_examples=60, deadline=None)
    @given(
        st.sampled_from([spiky(11), scattered(8), changing(lambda time: 1 + time), scattered(0)]),
        st.integers(-10, 10),
        st.integers(0, 1000),
    )
    def test_the_unit_of_time_does_not_matter(self, make: Make, exponent: int, seed: int) -> None:
        step_s = make(np.random.default_rng(seed))
        once = name_pattern(step_s.tolist(), warm_up_steps=5)
        again = name_pattern((step_s * 2.0**exponent).tolist(), warm_up_steps=5)
        assert (once.name, once.period_steps) == (again.name, again.period_steps)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_times_must_be_times(wrong: float) -> None:
    with pytest.raises(ValueError, match=r"step times must be finite seconds, none below 0"):
        name_pattern([1.0] * 20 + [wrong], warm_up_steps=1)
